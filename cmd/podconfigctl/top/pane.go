package top

import (
	"fmt"
	"slices"
	"strings"
)

// The panes, in the order of the key Tab.
const (
	paneSources = iota
	paneManifests
	panePods
	paneUpdates
	paneSubscribers
	panes
)

// pane is a part of the screen with a list.
type pane struct {
	name    string
	columns []column
	// none is shown if there are no rows.
	none string
	rows []*row
	// shown are the rows that match the filter, groups of them are those of groups. The number of all rows is without groups.
	shown  []*row
	groups int
	total  int
	// known means that there was an answer with the rows. omitted is the number of rows that it left out, and about what
	// follows the number of rows.
	known   bool
	omitted int
	about   string
	// The cursor stays on a row by the row's key while rows come and go. Without a key, it stays at its place. offset is the
	// first visible row.
	cursor, offset int
	key            string
	// width is that of the pane, height the number of its rows, without the title and the header.
	width, height int
	headed        bool
}

// row is a row of a pane.
type row struct {
	// key identifies the row. pod is the namespace and the name of its pod; empty if it has none. search is the text with
	// which a filter is compared; a row without it is always shown.
	key, pod, search string
	// cells returns the cells of a visible row.
	cells func() []cell
	// open is nil for the row of a group, which comes before its rows.
	open  func() *detail
	group bool
}

func newPanes() [panes]*pane {
	return [panes]*pane{
		{name: "Sources", none: "no sources", columns: []column{
			{title: "SOURCE"}, {title: "STATE"}, {title: "PODS"}, {title: "CHANGED"}, {title: "DETAIL", flexible: true},
		}},
		{name: "Manifests", none: "no manifests", columns: []column{
			{title: "MANIFEST", flexible: true}, {title: "VERDICT"}, {title: "POD", flexible: true, optional: true}, {title: "MESSAGE", flexible: true},
		}},
		{name: "Pods", none: "no pods", known: true, columns: []column{
			{title: "POD", flexible: true}, {title: "READY"}, {title: "STATUS"}, {title: "RESTARTS", optional: true}, {title: "AGE"}, {title: "SOURCE"}, {title: "IP", optional: true},
		}},
		{name: "Updates", none: "no updates yet", columns: []column{
			{title: "TIME"}, {title: "OP"}, {title: "SOURCE", optional: true}, {title: "POD", flexible: true}, {title: "CHANGED", flexible: true},
		}},
		{name: "Subscribers", none: "no subscribers", columns: []column{
			{title: "CLIENT", flexible: true}, {title: "LAG"}, {title: "RESETS"}, {title: "MODE", optional: true}, {title: "AGE"}, {title: "AGENT", flexible: true},
		}},
	}
}

// take replaces the rows.
func (p *pane) take(rows []*row, filter []string) {
	p.rows, p.known, p.total = rows, true, 0
	for _, r := range rows {
		if !r.group {
			p.total++
		}
	}
	p.refresh(filter)
}

// refresh shows the rows that have all words of the filter.
func (p *pane) refresh(filter []string) {
	p.shown, p.groups = p.shown[:0], 0
	var group *row
	for _, r := range p.rows {
		if r.group {
			group = r
			continue
		}
		lacks := func(word string) bool { return !strings.Contains(r.search, word) }
		if r.search == "" || !slices.ContainsFunc(filter, lacks) {
			if group != nil {
				p.shown, p.groups, group = append(p.shown, group), p.groups+1, nil
			}
			p.shown = append(p.shown, r)
		}
	}
}

// count returns the number of rows.
func (p *pane) count() string {
	if !p.known {
		return ""
	}
	text := fmt.Sprint(p.total + p.omitted)
	if n := len(p.shown) - p.groups; n != p.total {
		text = fmt.Sprintf("%d of %s", n, text)
	}
	return text + p.about
}

// note explains why a pane has no rows. bad marks an error.
func (m *model) note(of int) (text string, bad bool) {
	p, ofStream := m.panes[of], of == panePods || of == paneUpdates
	switch {
	case ofStream && m.refused != nil:
		return m.refused.Error(), true
	case len(p.rows) > 0:
		return "no " + strings.ToLower(strings.TrimSuffix(p.name, "s")) + " matches the filter", false
	case !ofStream && m.status == nil && m.statusErr != nil:
		return m.statusErr.Error(), true
	case !ofStream && m.status == nil:
		return "waiting for the status", false
	case of == panePods && !m.synced:
		return "waiting for the pods", false
	}
	return p.none, false
}

// place moves the cursor to the row with its key, if it is still there, and scrolls so that the cursor is among the visible
// rows. It keeps the offset as it is, if the cursor is visible.
func (p *pane) place() {
	p.cursor = max(min(p.cursor, len(p.shown)-1), 0)
	switch at := p.selected(); {
	case at == nil:
		p.key = ""
	case p.key != "" && at.key != p.key:
		if i := slices.IndexFunc(p.shown, func(r *row) bool { return r.key == p.key }); i >= 0 {
			p.cursor = i
		}
	}
	visible := max(p.height, 1)
	p.offset = min(p.offset, p.cursor, max(len(p.shown)-visible, 0))
	p.offset = max(p.offset, p.cursor-visible+1, 0)
}

// move moves the cursor by n rows.
func (p *pane) move(n int) {
	p.cursor = max(min(p.cursor+n, len(p.shown)-1), 0)
	if r := p.selected(); r != nil {
		p.key = r.key
	}
}

// selected returns the row of the cursor; nil if there are no rows.
func (p *pane) selected() *row {
	if p.cursor >= len(p.shown) {
		return nil
	}
	return p.shown[p.cursor]
}
