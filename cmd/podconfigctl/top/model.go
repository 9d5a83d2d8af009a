package top

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

// model is the state of the view.
type model struct {
	ctx    context.Context //nolint:containedctx // commands of bubbletea have no context
	config *Config
	styles *styles

	width, height int
	now           time.Time

	stream *poddiff.Stream
	// pods has the pods by the keys of their rows, updates the last updates, the oldest first. serial is the number of the
	// last one.
	pods    map[string]*pod
	updates []*update
	serial  int
	rates   rates
	// owned is true if the stream has the owners of pods.
	owned   bool
	touched map[string]bool // the pods of the last message
	// synced is true if the stream has sent all pods. down is why the connection is broken,
	// refused why the daemon refused the stream.
	synced        bool
	down, refused error
	status        *v1alpha1.Status
	statusErr     error

	panes  [panes]*pane
	focus  int
	filter string
	typing bool
	help   bool
	detail *detail
}

// tickMsg is the time, each second.
type tickMsg time.Time

func newModel(ctx context.Context, config *Config) *model {
	m := &model{
		ctx: ctx, config: config, styles: newStyles(), panes: newPanes(), focus: panePods,
		stream: poddiff.NewStream(), pods: make(map[string]*pod),
	}
	m.tick(time.Now())
	return m
}

// Init starts the clock.
func (m *model) Init() tea.Cmd { return nextTick() }

func nextTick() tea.Cmd {
	return tea.Every(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update changes the model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + clean(strings.TrimSpace(msg.Content)))
		}
	case tickMsg:
		m.tick(time.Time(msg))
		cmd = nextTick()
	case statusMsg:
		m.takeStatus(msg)
	case eventsMsg:
		m.takeEvents(msg)
		if m.detail != nil && m.touched[m.detail.pod] {
			cmd = m.detail.refresh()
		}
	case loadedMsg:
		if m.detail != nil {
			cmd = m.detail.take(msg)
		}
	}
	m.arrange()
	return m, cmd
}

func (m *model) tick(now time.Time) {
	m.now = now
	m.rates.advance(now)
}

// setFilter filters the lists by all words of the text.
func (m *model) setFilter(text string) {
	m.filter = text
	for _, p := range m.panes {
		p.refresh(m.words())
	}
}

func (m *model) words() []string { return strings.Fields(strings.ToLower(m.filter)) }
