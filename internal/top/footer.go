package top

import (
	"fmt"
	"strings"
)

// footer returns the last line: the keys, or the filter.
func (m *model) footer() string {
	s := m.styles
	if m.typing {
		return line(m.width, span{"/", s.focused}, span{m.filter, s.plain}, span{"▏", s.focused}, span{"  enter keep  esc clear", s.dim})
	}
	var spans []span
	hint := func(key, about string) {
		spans = append(spans, span{key, s.title}, span{" " + about + "  ", s.dim})
	}
	switch {
	case m.help:
		hint("any key", "back")
	case m.detail != nil && m.detail.pod != "":
		hint("y", "YAML")
		hint("h", "history")
		hint("d", "diff")
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
		hint("h", "history")
		hint("d", "diff")
		hint("?", "help")
		hint("q", "quit")
	}
	return line(m.width, spans...)
}

// helpLines describe the keys.
func (m *model) helpLines() []string {
	s := m.styles
	lines := []string{"", s.title.Render("Keys"), ""}
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
		{"/", "filter pods, manifests and updates: all words must occur"},
		{"esc", "go back, or clear the filter"},
		{"ctrl+z", "suspend"},
		{"q, ctrl+c", "quit"},
	} {
		lines = append(lines, line(m.width, span{"  " + fit(row[0], 20), s.focused}, span{row[1], s.plain}))
	}
	return lines
}

// draw returns the lines of the detail.
func (d *detail) draw() []string {
	s := d.m.styles
	spans := []span{{d.title, s.focused}, {"  ", s.plain}}
	if d.pod != "" {
		for p, name := range []string{"YAML", "history", "diff"} {
			style := s.dim
			if page(p) == d.active {
				underlined := s.title.Underline(true)
				style = &underlined
			}
			spans = append(spans, span{name, style}, span{"  ", s.plain})
		}
	}
	if d.view.TotalLineCount() > d.view.Height() {
		spans = append(spans, span{fmt.Sprintf("%.0f%%", 100*d.view.ScrollPercent()), s.dim})
	}
	return append([]string{line(d.m.width, spans...)}, strings.Split(d.view.View(), "\n")...)
}
