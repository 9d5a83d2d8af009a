package top

import (
	"cmp"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

const (
	// wideWidth is the width from which the panes are in two columns, columnGap the space between these.
	wideWidth = 150
	columnGap = 2
	// headedHeight is the height of the screen from which all tables have a header.
	headedHeight = 28
)

// columnsOf returns the panes of each column of the screen.
func (m *model) columnsOf() [][]int {
	if m.width >= wideWidth {
		return [][]int{{paneSources, paneManifests, paneSubscribers}, {panePods, paneUpdates}}
	}
	return [][]int{{paneSources, paneManifests, panePods, paneUpdates, paneSubscribers}}
}

// arrange gives each pane its place, and places the cursors.
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
		for j, of := range column {
			shares[j] = m.share(of)
		}
		// The first line of the screen is the header, the last the footer.
		for j, height := range divide(max(m.height-2, 0), shares) {
			p := m.panes[column[j]]
			p.headed = (m.height >= headedHeight || column[j] == panePods) && len(p.shown) > 0 && height > 2
			p.width, p.height = width, height-1
			if p.headed {
				p.height--
			}
			p.place()
		}
	}
	if m.detail != nil {
		m.detail.arrange()
	}
}

// share is what a pane wants of the height of a column.
type share struct {
	// least is the height that the pane gets first, want the height that it can use.
	least, want int
	// weight is the pane's part of what is left.
	weight int
}

// share returns what a pane wants: the title, a header, and its rows. The focused pane gets
// more.
func (m *model) share(of int) share {
	want := 1 + max(len(m.panes[of].shown), 1)
	if m.height >= headedHeight || of == panePods {
		want++
	}
	s := share{least: 3, want: want, weight: 1}
	switch of {
	case panePods:
		s.least, s.weight = 5, 3
	case paneUpdates:
		s.least, s.weight, s.want = 4, 2, m.height // so that nothing moves while it fills
	case paneManifests:
		s.least = 4
	}
	if of == m.focus {
		s.weight *= 4
	}
	return s
}

// divide divides the height among panes. What no pane wants goes to the last.
func divide(height int, shares []share) []int {
	heights := make([]int, len(shares))
	give := func(limit func(share) int) {
		for height > 0 {
			next := -1
			for i, s := range shares {
				if heights[i] < limit(s) && (next < 0 || heights[i]*shares[next].weight < heights[next]*s.weight) {
					next = i
				}
			}
			if next < 0 {
				return
			}
			heights[next]++
			height--
		}
	}
	give(func(s share) int { return min(s.least, s.want) })
	give(func(s share) int { return s.want })
	if len(heights) > 0 {
		heights[len(heights)-1] += height
	}
	return heights
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "podconfigctl top"
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
	lines = resize(lines, m.height-1)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "") // in a terminal of a few columns
	}
	return append(lines, m.footer())[:m.height]
}

// resize cuts lines at the height, or adds empty ones.
func resize(lines []string, height int) []string {
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines[:height]
}

// body returns the lines of the panes.
func (m *model) body() []string {
	columns := m.columnsOf()
	var lines []string
	for i, column := range columns {
		var drawn []string
		for _, of := range column {
			drawn = append(drawn, m.drawPane(of)...)
		}
		if i == 0 {
			lines = drawn
			continue
		}
		left := m.panes[columns[0][0]].width
		lines = resize(lines, max(len(lines), len(drawn)))
		for j, text := range drawn {
			lines[j] += strings.Repeat(" ", max(0, left-ansi.StringWidth(lines[j]))+columnGap) + text
		}
	}
	return lines
}

// drawPane returns the lines of a pane: the title, the header and the rows.
func (m *model) drawPane(of int) []string {
	p := m.panes[of]
	if p.height < 0 {
		return nil
	}
	lines := []string{m.paneTitle(of)}
	if len(p.shown) == 0 && p.height > 0 {
		note, bad := m.note(of)
		style := m.styles.dim
		if bad {
			style = m.styles.bad
		}
		lines = append(lines, ansi.Truncate(strings.Repeat(" ", marker)+style.Styled(clean(note)), p.width, ellipsis))
	}
	if len(p.shown) > 0 {
		t := table{columns: p.columns}
		for _, r := range p.shown[p.offset:min(p.offset+p.height, len(p.shown))] {
			t.add(r.cells())
		}
		selected := -1
		if of == m.focus {
			selected = p.cursor - p.offset
		}
		lines = append(lines, t.draw(m.styles, p.width, p.headed, selected)...)
	}
	height := p.height + 1
	if p.headed {
		height++
	}
	return resize(lines, height)
}

// paneTitle returns the line with the title of a pane. That of the updates has the
// sparkline.
func (m *model) paneTitle(of int) string {
	s, p := m.styles, m.panes[of]
	title, rule := s.title, "─"
	if of == m.focus {
		title, rule = s.focused, "━"
	}
	left, right := title.Styled(p.name), ""
	if of == paneUpdates {
		left += " "
		right = " " + s.accent.Styled(m.rates.sparkline(min(p.width/3, 60))) + " " + m.rates.perSecond()
	} else {
		left += s.dim.Styled(strings.TrimRight(" "+p.count(), " ") + " ")
	}
	left += s.dim.Styled(strings.Repeat(rule, max(p.width-ansi.StringWidth(left+right), 0)))
	return ansi.Truncate(left+right, p.width, ellipsis)
}

// header returns the first line: the node and the state of the daemon.
func (m *model) header() string {
	s, st := m.styles, m.status
	line := s.title.Styled("podconfigd")
	add := func(text string, style ansi.Style) { line += "  " + style.Styled(clean(text)) }
	if st != nil {
		add(cmp.Or(st.NodeName, "no node name"), s.focused)
	}
	switch err := cmp.Or(m.down, m.statusErr); {
	case err != nil:
		add(fmt.Sprintf("disconnected, retrying: %v", err), s.bad)
	case st == nil:
		add("connecting to "+m.config.Address, s.dim)
	default:
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
	}
	return ansi.Truncate(line, m.width, ellipsis)
}
