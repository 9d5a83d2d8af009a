package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// page is a page of the detail of a pod.
type page int

const (
	pageYAML page = iota
	pageHistory
	pageDiff
	pageWhy
	pageCount
)

var pages = map[string]page{"y": pageYAML, "h": pageHistory, "d": pageDiff, "w": pageWhy}

// detail shows one pod, manifest, source, update or subscriber on the whole screen.
type detail struct {
	m     *model
	title string
	// pod is the name of the pod whose pages are shown. If it is empty, there is only one
	// page.
	pod    string
	last   *v1.Pod // the last version of the pod
	active page
	lines  []string // with styles
	// wrapped are the lines cut at the width of the screen. offset is the first visible one.
	wrapped []string
	width   int
	offset  int
	// request is the number of the last request for what a page shows. loading is true until its answer is there, stale if
	// the pod changed meanwhile.
	request        int
	loading, stale bool
}

func (m *model) newDetail(title string, lines []string) *detail {
	return &detail{m: m, title: clean(title), lines: lines}
}

// set replaces the lines, and keeps the position.
func (d *detail) set(lines ...string) {
	d.lines = lines
	d.width = 0
}

// arrange wraps the lines, and keeps the offset in its limits.
func (d *detail) arrange() {
	if d.width != d.m.width {
		d.width = d.m.width
		d.wrapped = nil
		for _, line := range d.lines {
			d.wrapped = append(d.wrapped, wrap(d.width, line)...)
		}
	}
	d.offset = max(min(d.offset, len(d.wrapped)-d.m.detailHeight()), 0)
}

// detailHeight is the height of the detail, without its title.
func (m *model) detailHeight() int { return max(m.height-3, 1) }

// podDetail returns the detail of a pod by its name.
func (m *model) podDetail(name string) *detail {
	d := m.newDetail("Pod "+name, nil)
	d.pod = name
	return d
}

// objectDetail returns the detail of an object of the status.
func (m *model) objectDetail(title string, object any) *detail {
	data, err := printable.YAML(object)
	if err != nil {
		return m.newDetail(title, []string{m.styles.bad.Styled(clean(err.Error()))})
	}
	return m.newDetail(title, m.yamlLines(string(data)))
}

// show shows a page of the pod.
func (d *detail) show(p page) tea.Cmd {
	if d.pod == "" {
		return nil
	}
	if p != d.active {
		d.offset, d.lines = 0, nil
	}
	d.active = p
	d.loading, d.stale = false, false
	switch p {
	case pageYAML:
		d.request++ // an answer for another page comes too late
		d.showYAML()
		return nil
	case pageWhy:
		return d.loadWhy()
	default:
		return d.loadHistory(p == pageDiff)
	}
}

// refresh shows the page again, because the pod changed. It waits for an answer that is on its way: a pod that changes faster
// than the daemon answers would have none.
func (d *detail) refresh() tea.Cmd {
	if d.stale = d.loading; d.stale {
		return nil
	}
	return d.show(d.active)
}

// take shows what the daemon answered. An answer for another page comes too late.
func (d *detail) take(msg loadedMsg) tea.Cmd {
	if d != msg.detail || d.request != msg.request {
		return nil
	}
	d.set(msg.lines()...)
	if d.loading = false; d.stale {
		return d.show(d.active)
	}
	return nil
}

func (d *detail) showYAML() {
	s := d.m.styles
	object := d.m.podNamed(d.pod)
	gone := object == nil
	if gone {
		object = d.last
	}
	if object == nil {
		d.set(s.dim.Styled("The pod is not on the node. Its history may have it: press h or d."))
		return
	}
	d.last = object
	manifest, err := poddiff.Manifest(object)
	if err != nil {
		d.set(s.bad.Styled(clean(err.Error())))
		return
	}
	lines := d.m.yamlLines(string(manifest))
	if gone {
		lines = slices.Insert(lines, 0, s.warn.Styled("# The pod is no longer on the node. This is its last version."))
	}
	d.set(lines...)
}

// yamlLines returns the lines of YAML, with the keys in another style.
func (m *model) yamlLines(text string) (lines []string) {
	for text := range strings.Lines(text) {
		text = clean(strings.TrimSuffix(text, "\n"))
		rest := strings.TrimLeft(text, " -")
		key, value, ok := strings.Cut(rest, ":")
		if !ok || key == "" || strings.ContainsAny(key, ` "'{[`) || value != "" && value[0] != ' ' {
			lines = append(lines, text)
			continue
		}
		lines = append(lines, text[:len(text)-len(rest)]+m.styles.accent.Styled(key)+":"+value)
	}
	return lines
}

// diffLines returns the lines of a unified diff.
func (m *model) diffLines(text string) (lines []string) {
	for text := range strings.Lines(text) {
		text = clean(strings.TrimSuffix(text, "\n"))
		var style ansi.Style
		switch {
		case strings.HasPrefix(text, "@@"):
			style = m.styles.accent
		case strings.HasPrefix(text, "---"), strings.HasPrefix(text, "+++"):
			style = m.styles.dim
		case strings.HasPrefix(text, "+"):
			style = m.styles.good
		case strings.HasPrefix(text, "-"):
			style = m.styles.bad
		}
		lines = append(lines, style.Styled(text))
	}
	return lines
}

// fields returns lines with names and values. It leaves out empty values.
func (m *model) fields(pairs ...string) (lines []string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			lines = append(lines, m.styles.accent.Styled(fit(pairs[i], 11))+clean(pairs[i+1]))
		}
	}
	return lines
}

// updateDetail returns the detail of an update, with the difference.
func (m *model) updateDetail(u *update) *detail {
	revision := ""
	if u.revision != 0 {
		revision = fmt.Sprint(u.revision)
	}
	lines := m.fields("Time", u.time.Local().Format(time.RFC3339Nano), "Operation", string(u.op), "Source", u.source, "Pod", u.pod, "Revision", revision, "Change", u.describe())
	if u.change.Before != nil || u.change.After != nil {
		text, err := poddiff.Unified(u.change.Before, u.change.After)
		if err != nil {
			text = err.Error()
		}
		lines = append(append(lines, ""), m.diffLines(text)...)
	}
	return m.newDetail(strings.TrimSpace("Update "+string(u.op)+" "+u.pod), lines)
}
