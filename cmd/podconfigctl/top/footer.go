package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// footer returns the last line: the keys, or the filter.
func (m *model) footer() string {
	s := m.styles
	if m.typing {
		return ansi.Truncate(s.focused.Styled("/")+m.filter+s.focused.Styled("▏")+s.dim.Styled("  enter keep  esc clear"), m.width, ellipsis)
	}
	hints := ""
	hint := func(key, about string) { hints += s.title.Styled(key) + s.dim.Styled(" "+about+"  ") }
	switch {
	case m.help:
		hint("any key", "back")
	case m.detail != nil && m.detail.pod != "":
		hint("y", "YAML")
		hint("h", "history")
		hint("d", "diff")
		hint("w", "why")
		hint("↑↓", "scroll")
		hint("esc", "back")
	case m.detail != nil:
		hint("↑↓", "scroll")
		hint("esc", "back")
	default:
		if m.filter != "" {
			hint("esc", "clear filter "+m.filter)
		} else {
			hint("/", "filter")
		}
		hint("tab", "pane")
		hint("↑↓", "select")
		hint("enter", "open")
		hint("w", "why")
		hint("h", "history")
		hint("?", "help")
		hint("q", "quit")
	}
	return ansi.Truncate(hints, m.width, ellipsis)
}

// helpLines describe the keys.
func (m *model) helpLines() []string {
	s := m.styles
	lines := []string{"", s.title.Styled("Keys"), ""}
	for _, row := range [][2]string{
		{"tab, shift+tab", "next and previous pane"},
		{"1 to 5", "sources, manifests, pods, updates, subscribers"},
		{"↑ ↓, j k", "select a row"},
		{"page up, page down", "a page up or down"},
		{"home end, g G", "first and last row"},
		{"enter", "open the row: YAML of a pod, verdict of a manifest, difference of an update"},
		{"y", "YAML of the pod of the row"},
		{"h", "history of the pod, newest first"},
		{"d", "differences between the versions of the pod"},
		{"w", "why the pod runs or not, and what to do; for a source or a manifest: what is wrong"},
		{"/", "filter pods, manifests and updates: all words must occur"},
		{"esc", "go back, or clear the filter"},
		{"ctrl+z", "suspend"},
		{"q, ctrl+c", "quit"},
	} {
		lines = append(lines, ansi.Truncate(s.focused.Styled("  "+fit(row[0], 20))+row[1], m.width, ellipsis))
	}
	return lines
}

// draw returns the lines of the detail.
func (d *detail) draw() []string {
	s := d.m.styles
	title := []string{s.focused.Styled(d.title)}
	if d.pod != "" {
		for p, name := range []string{"YAML", "history", "diff", "why"} {
			style := s.dim
			if page(p) == d.active {
				style = slices.Clip(s.title).Underline(true)
			}
			title = append(title, style.Styled(name))
		}
	}
	height := d.m.detailHeight()
	if len(d.wrapped) > height {
		title = append(title, s.dim.Styled(fmt.Sprintf("%d-%d of %d", d.offset+1, min(d.offset+height, len(d.wrapped)), len(d.wrapped))))
	}
	return append([]string{ansi.Truncate(strings.Join(title, "  "), d.m.width, ellipsis)}, d.wrapped[d.offset:min(d.offset+height, len(d.wrapped))]...)
}
