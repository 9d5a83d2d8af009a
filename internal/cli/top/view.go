package top

import (
	"cmp"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// area is the place of a pane: the number of its rows, without the title and the header.
type area struct {
	width, rows int
	headed      bool
}

// headedHeight is the height of the screen from which all tables have a header.
const headedHeight = 28

// columnsOf returns the panes of each column of the screen.
func (m *model) columnsOf() [][]int {
	if m.width >= wideWidth {
		return [][]int{{paneSources, paneManifests, paneSubscribers}, {panePods, paneUpdates}}
	}
	return [][]int{{paneSources, paneManifests, panePods, paneUpdates, paneSubscribers}}
}

// columnGap is the space between the columns of a wide screen.
const columnGap = 2

// arrange computes the areas, and places the cursors.
func (m *model) arrange() {
	columns := m.columnsOf()
	width := m.width
	if len(columns) > 1 {
		width = (m.width - columnGap) / 2
	}
	for i, column := range columns {
		if i == len(columns)-1 {
			width = m.width - i*(width+columnGap)
		}
		shares := make([]share, len(column))
		for j, p := range column {
			shares[j] = m.share(p)
		}
		// The first line of the screen is the header, the last the footer.
		for j, height := range divide(max(m.height-2, 0), shares) {
			p := column[j]
			headed := (m.height >= headedHeight || p == panePods) && m.panes[p].len() > 0 && height > 2
			m.areas[p] = area{width: width, rows: height - 1, headed: headed}
			if headed {
				m.areas[p].rows--
			}
			m.lists[p].place(m.panes[p].len(), m.areas[p].rows, m.panes[p].key)
		}
	}
	if m.detail != nil {
		m.detail.arrange()
	}
}

// share returns what a pane wants: the title, a header, and its rows. The focused pane gets
// more.
func (m *model) share(p int) share {
	want := 1 + max(m.panes[p].len(), 1)
	if m.height >= headedHeight || p == panePods {
		want++
	}
	s := share{least: 3, want: want, weight: 1}
	switch p {
	case panePods:
		s.least, s.weight = 5, 3
	case paneUpdates:
		s.least, s.weight, s.want = 4, 2, m.height // so that nothing moves while it fills
	case paneManifests:
		s.least = 4
	}
	if p == m.focus {
		s.weight *= 4
	}
	return s
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "podconfigd top"
	return v
}

// screen returns the lines of the screen.
func (m *model) screen() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	lines := []string{m.header()}
	switch {
	case m.help:
		lines = append(lines, m.helpLines()...)
	case m.detail != nil:
		lines = append(lines, m.detail.draw()...)
	default:
		lines = append(lines, m.body()...)
	}
	lines = lines[:min(len(lines), m.height-1)]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "") // in a terminal of a few columns
	}
	return append(lines, m.footer())[:m.height]
}

// body returns the lines of the panes.
func (m *model) body() []string {
	columns := m.columnsOf()
	var lines []string
	for i, column := range columns {
		var drawn []string
		for _, p := range column {
			drawn = append(drawn, m.drawPane(p)...)
		}
		if i == 0 {
			lines = drawn
			continue
		}
		left := m.areas[columns[0][0]].width
		for j := range max(len(lines), len(drawn)) {
			if j == len(lines) {
				lines = append(lines, "")
			}
			if j < len(drawn) {
				lines[j] += strings.Repeat(" ", max(0, left-ansi.StringWidth(lines[j]))+columnGap) + drawn[j]
			}
		}
	}
	return lines
}

// drawPane returns the lines of a pane: the title, the header and the rows.
func (m *model) drawPane(p int) []string {
	a := m.areas[p]
	if a.rows < 0 {
		return nil
	}
	lines := []string{m.paneTitle(p, a.width)}
	rows := m.panes[p].len()
	if rows == 0 && a.rows > 0 {
		note, bad := m.panes[p].note()
		style := m.styles.dim
		if bad {
			style = m.styles.bad
		}
		lines = append(lines, line(a.width, span{strings.Repeat(" ", marker), nil}, span{clean(note), style}))
	}
	if rows > 0 {
		l := m.lists[p]
		t := table{columns: m.panes[p].columns()}
		for i := l.offset; i < min(l.offset+a.rows, rows); i++ {
			t.add(m.panes[p].row(i))
		}
		selected := -1
		if p == m.focus {
			selected = l.cursor - l.offset
		}
		lines = append(lines, t.draw(m.styles, a.width, a.headed, selected)...)
	}
	height := a.rows + 1
	if a.headed {
		height++
	}
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines[:height]
}

// paneTitle returns the line with the title of a pane. That of the updates has the
// sparkline.
func (m *model) paneTitle(p, width int) string {
	s := m.styles
	name, about := m.panes[p].title()
	title, rule := s.title, "─"
	if p == m.focus {
		title, rule = s.focused, "━"
	}
	spans := []span{{name, title}, {strings.TrimRight(" "+clean(about), " ") + " ", s.dim}}
	var right []span
	if p == paneUpdates {
		spans = []span{{name, title}, {" ", s.dim}}
		right = []span{{" ", s.dim}, {m.rates.sparkline(min(width/3, 60)), s.accent}, {" " + m.rates.perSecond(), nil}}
	}
	used := 0
	for _, part := range append(append([]span(nil), spans...), right...) {
		used += ansi.StringWidth(part.text)
	}
	spans = append(spans, span{strings.Repeat(rule, max(width-used, 0)), s.dim})
	return line(width, append(spans, right...)...)
}

// header returns the first line: the node and the state of the daemon.
func (m *model) header() string {
	s := m.styles
	spans := []span{{"podconfigd", s.title}}
	add := func(text string, style ansi.Style) {
		spans = append(spans, span{"  ", nil}, span{clean(text), style})
	}
	if st := m.status; st != nil {
		add(cmp.Or(st.NodeName, "no node name"), s.focused)
	}
	if err := cmp.Or(m.down, m.statusErr); m.down != nil || m.statusErr != nil {
		add(fmt.Sprintf("disconnected, retrying: %v", err), s.bad)
		return line(m.width, spans...)
	}
	st := m.status
	if st == nil {
		add("connecting to "+m.config.Address, s.dim)
		return line(m.width, spans...)
	}
	if st.Ready {
		add("ready", s.good)
	} else {
		add("waiting for sources", s.warn)
	}
	add(fmt.Sprintf("%d pods", st.Pods), nil)
	add("up "+m.since(&st.StartTime), nil)
	if st.State != nil && !st.State.Stored {
		add("not stored: "+st.State.LastError, s.bad)
	}
	if r := st.Runtime; r != nil && !r.Healthy {
		add("runtime: "+cmp.Or(r.LastError, "not healthy"), s.bad)
	}
	add(fmt.Sprintf("revision %d", st.Revision), s.dim)
	return line(m.width, spans...)
}
