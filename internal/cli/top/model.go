package top

import (
	"cmp"
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

// pane is a part of the screen with a list.
type pane interface {
	title() (name, about string)
	columns() []column
	// len is the number of rows, key identifies a row, and row returns its cells. View calls
	// row only for visible rows.
	len() int
	key(i int) string
	row(i int) []cell
	// note is shown if there are no rows. bad marks an error.
	note() (text string, bad bool)
	// open returns the detail of a row, or nil.
	open(i int) *detail
}

// The panes, in the order of the key Tab.
const (
	paneSources = iota
	paneManifests
	panePods
	paneUpdates
	paneSubscribers
	panes
)

// model is the state of the view.
type model struct {
	ctx    context.Context //nolint:containedctx // commands of bubbletea have no context
	config *Config
	styles *styles

	width, height int
	now           time.Time

	stream   *poddiff.Stream
	pods     podSet
	updates  updateLog
	rates    rates
	verdicts verdicts
	// synced is true if the stream has sent all pods. down is why the connection is broken,
	// refused why the daemon refused the stream.
	synced        bool
	down, refused error
	status        *v1alpha1.Status
	statusErr     error

	panes   [panes]pane
	lists   [panes]list
	areas   [panes]area
	focus   int
	filter  string
	typing  bool
	help    bool
	detail  *detail
	touched map[string]bool // the pods of the last message
}

// tickMsg is the time, each second.
type tickMsg time.Time

func newModel(ctx context.Context, config *Config) *model {
	m := &model{
		ctx: ctx, config: config, styles: newStyles(), focus: panePods,
		stream: poddiff.NewStream(), pods: podSet{byKey: make(map[podKey]*pod)},
	}
	m.panes = [panes]pane{sourcesPane{m}, manifestsPane{m}, podsPane{m}, updatesPane{m}, subscribersPane{m}}
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
			cmd = m.detail.show(m.detail.active)
		}
	case loadedMsg:
		if m.detail == msg.detail && m.detail.request == msg.request { // otherwise, it comes too late
			m.detail.set(msg.lines()...)
		}
	}
	m.arrange()
	return m, cmd
}

func (m *model) tick(now time.Time) {
	m.now = now
	m.rates.advance(now)
}

func (m *model) takeStatus(msg statusMsg) {
	m.statusErr = msg.err
	if msg.err != nil {
		return
	}
	m.status = msg.status
	m.verdicts.take(msg.status)
	m.verdicts.refresh(m.words())
}

func (m *model) takeEvents(events eventsMsg) {
	m.touched = make(map[string]bool)
	for _, e := range events {
		switch {
		case e.down != nil:
			m.down = e.down
			continue
		case e.refused != nil:
			m.refused, m.down = e.refused, nil
			continue
		}
		m.down, m.refused = nil, nil
		if e.restart || e.update.Reset {
			m.reset(e.update)
		}
		m.takeUpdate(e.update)
	}
	m.pods.refresh(m.words())
	m.updates.refresh(m.words())
}

// reset forgets the pods. The present ones follow.
func (m *model) reset(u *v1alpha1.Update) {
	m.stream.Reset()
	clear(m.pods.byKey)
	m.pods.dirty = true
	m.synced = false
	if u.Reset {
		m.updates.add(&update{time: m.timeOf(u), op: "RESET", about: cmp.Or(clean(u.Message), "the present pods follow")})
	}
}

func (m *model) takeUpdate(u *v1alpha1.Update) {
	if u.Op == v1alpha1.OpBookmark {
		m.synced = m.synced || u.InitialSyncComplete
		return
	}
	for _, object := range u.Pods {
		object.ManagedFields = nil // they are not shown, and can be half of a pod
	}
	m.pods.take(u)
	if u.Revision != 0 {
		m.rates.add(1)
	}
	for _, object := range u.Pods {
		change := m.stream.Take(u.Op, object)
		name := object.Namespace + "/" + object.Name
		m.touched[name] = true
		if u.Revision != 0 || m.synced {
			m.updates.add(&update{time: m.timeOf(u), op: u.Op, source: u.Source, pod: name, revision: u.Revision, change: change})
		}
	}
}

func (m *model) timeOf(u *v1alpha1.Update) time.Time {
	if u.Time != nil {
		return *u.Time
	}
	return m.now
}

// setFilter filters the lists by all words of the text.
func (m *model) setFilter(text string) {
	m.filter = text
	m.pods.dirty, m.updates.dirty = true, true
	m.pods.refresh(m.words())
	m.updates.refresh(m.words())
	m.verdicts.refresh(m.words())
}

func (m *model) words() []string { return strings.Fields(strings.ToLower(m.filter)) }
