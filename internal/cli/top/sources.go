package top

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
)

// sourcesPane shows the sources and their state.
type sourcesPane struct{ m *model }

func (p sourcesPane) all() []v1alpha1.SourceStatus {
	if p.m.status == nil {
		return nil
	}
	return p.m.status.Sources
}

func (p sourcesPane) title() (name, about string) { return "Sources", p.m.count(len(p.all())) }

func (p sourcesPane) columns() []column {
	return []column{{title: "SOURCE"}, {title: "STATE"}, {title: "PODS"}, {title: "CHANGED"}, {title: "DETAIL", flexible: true}}
}

func (p sourcesPane) len() int         { return len(p.all()) }
func (p sourcesPane) key(i int) string { return p.all()[i].Name }

func (p sourcesPane) row(i int) []cell {
	s, styles := &p.all()[i], p.m.styles
	state := cell{"ok", styles.good}
	switch {
	case s.Held != nil:
		state = cell{"held", styles.bad}
	case s.Degraded:
		state = cell{"degraded", styles.bad}
	case s.Restored && !s.Seen:
		state = cell{"restored", styles.warn}
	case !s.Seen:
		state = cell{"not seen", styles.warn}
	}
	return []cell{{text: s.Name}, state, {text: fmt.Sprint(s.Pods)}, {p.m.since(s.LastChange), styles.dim}, {text: sourceDetail(s)}}
}

func (p sourcesPane) note() (string, bool) { return p.m.statusNote("no sources") }

func (p sourcesPane) open(i int) *detail {
	s := p.all()[i]
	if s.File != nil {
		file := *s.File
		file.Manifests = nil
		s.File = &file
	}
	if s.HTTP != nil {
		http := *s.HTTP
		http.Manifests = nil
		s.HTTP = &http
	}
	d := p.m.objectDetail("Source "+s.Name, &s)
	wrong := p.m.fields("Error", s.LastError)
	for _, fix := range mend.Source(&s) {
		wrong = append(wrong, p.m.fields("Fix", fix)...)
	}
	if len(wrong) > 0 {
		d.lines = append(append(wrong, nil), d.lines...)
	}
	return d
}

// sourceDetail describes what the source reads, or what is wrong with it.
func sourceDetail(s *v1alpha1.SourceStatus) string {
	switch {
	case s.Held != nil:
		return fmt.Sprintf("a set that removes %d of %d pods is held: %s", s.Held.Removes, s.Held.Pods, s.LastError)
	case s.Degraded:
		return s.LastError
	case s.File != nil && s.File.Absent:
		return s.File.Path + " does not exist yet"
	case s.File != nil:
		return s.File.Path + ", " + s.File.Watch
	case s.HTTP != nil:
		return s.HTTP.URL
	case s.API != nil && !s.API.NodeKnown:
		return s.API.Server + ", waiting until the apiserver has the node"
	case s.API != nil && !s.API.Connected:
		return s.API.Server + ", not connected"
	case s.API != nil:
		return s.API.Server + ", watching"
	}
	return ""
}

// since returns the time since t, as kubectl shows it.
func (m *model) since(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return duration.HumanDuration(max(m.now.Sub(*t), 0))
}

// count returns a number of the status, or "" if there is no status yet.
func (m *model) count(n int) string {
	if m.status == nil {
		return ""
	}
	return fmt.Sprint(n)
}

// statusNote explains why a part of the status has no rows.
func (m *model) statusNote(none string) (note string, bad bool) {
	switch {
	case m.status != nil:
		return none, false
	case m.statusErr != nil:
		return m.statusErr.Error(), true
	}
	return "waiting for the status", false
}
