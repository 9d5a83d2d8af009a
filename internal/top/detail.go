package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/internal/poddiff"
)

// page is a page of the detail of a pod.
type page int

const (
	pageYAML page = iota
	pageHistory
	pageDiff
	pageCount
)

var pages = map[string]page{"y": pageYAML, "h": pageHistory, "d": pageDiff}

// detail shows one pod, manifest, source, update or subscriber on the whole screen.
type detail struct {
	m     *model
	title string
	// pod is the name of the pod whose pages are shown. If it is empty, there is only one
	// page.
	pod    string
	last   *v1.Pod // the last version of the pod
	active page
	lines  []string
	view   viewport.Model
	// request is the number of the last request of the history.
	request int
}

func (m *model) newDetail(title string, lines []string) *detail {
	d := &detail{m: m, title: clean(title), view: viewport.New()}
	d.view.SoftWrap = true
	d.set(lines)
	return d
}

// set replaces the lines, and keeps the position.
func (d *detail) set(lines []string) {
	d.lines = lines
	d.view.SetContentLines(lines)
}

// podDetail returns the detail of a pod by its name.
func (m *model) podDetail(name string) *detail {
	d := m.newDetail("Pod "+name, nil)
	d.pod = name
	return d
}

// objectDetail returns the detail of an object of the status.
func (m *model) objectDetail(title string, object any) *detail {
	data, err := yaml.Marshal(object)
	if err != nil {
		return m.newDetail(title, []string{m.styles.bad.Render(clean(err.Error()))})
	}
	return m.newDetail(title, m.yamlLines(string(data)))
}

// show shows a page of the pod.
func (d *detail) show(p page) tea.Cmd {
	if d.pod == "" {
		return nil
	}
	if p != d.active {
		d.view.GotoTop()
	}
	d.active = p
	if p != pageYAML {
		return d.requestHistory(p == pageDiff)
	}
	d.showYAML()
	return nil
}

func (d *detail) showYAML() {
	s := d.m.styles
	object := d.m.pods.named(d.pod)
	gone := object == nil
	if gone {
		object = d.last
	}
	if object == nil {
		d.set([]string{s.dim.Render("The pod is not on the node. Its history may have it: press h or d.")})
		return
	}
	d.last = object
	manifest, err := poddiff.Manifest(object)
	if err != nil {
		d.set([]string{s.bad.Render(clean(err.Error()))})
		return
	}
	lines := d.m.yamlLines(string(manifest))
	if gone {
		lines = append([]string{s.warn.Render("# The pod is no longer on the node. This is its last version.")}, lines...)
	}
	d.set(lines)
}

// yamlLines returns the lines of YAML, with the keys in another style.
func (m *model) yamlLines(text string) []string {
	var lines []string
	for text := range strings.Lines(text) {
		text = clean(strings.TrimSuffix(text, "\n"))
		rest := strings.TrimLeft(text, " -")
		key, value, found := strings.Cut(rest, ":")
		if !found || key == "" || strings.ContainsAny(key, ` "'{[`) || value != "" && value[0] != ' ' {
			lines = append(lines, text)
			continue
		}
		lines = append(lines, text[:len(text)-len(rest)]+m.styles.accent.Render(key)+":"+value)
	}
	return lines
}

// diffLines returns the lines of a unified diff.
func (m *model) diffLines(text string) []string {
	var lines []string
	for text := range strings.Lines(text) {
		text = clean(strings.TrimSuffix(text, "\n"))
		style := m.styles.plain
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
		lines = append(lines, style.Render(text))
	}
	return lines
}

// fields returns lines with names and values. It leaves out empty values.
func (m *model) fields(pairs ...string) []string {
	var lines []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			lines = append(lines, m.styles.accent.Render(fit(pairs[i], 10))+clean(pairs[i+1]))
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
