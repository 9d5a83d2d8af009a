package top

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/mend"
)

func (m *model) takeStatus(msg statusMsg) {
	m.statusErr = msg.err
	if msg.err != nil {
		return
	}
	m.status = msg.status
	var sources, subscribers []*row
	for i := range m.status.Sources {
		sources = append(sources, m.sourceRow(&m.status.Sources[i]))
	}
	for i := range m.status.Subscribers {
		subscribers = append(subscribers, m.subscriberRow(&m.status.Subscribers[i]))
	}
	m.panes[paneSources].take(sources, m.words())
	m.panes[paneManifests].take(m.manifestRows(m.panes[paneManifests]), m.words())
	m.panes[paneSubscribers].take(subscribers, m.words())
}

// sourceRow returns the row of a source and its state.
func (m *model) sourceRow(s *v1alpha1.SourceStatus) *row {
	state := cell{"ok", m.styles.good}
	switch {
	case s.Held != nil:
		state = cell{"held", m.styles.bad}
	case s.Degraded:
		state = cell{"degraded", m.styles.bad}
	case s.Restored && !s.Seen:
		state = cell{"restored", m.styles.warn}
	case !s.Seen:
		state = cell{"not seen", m.styles.warn}
	}
	return &row{
		key: s.Name,
		cells: func() []cell {
			return []cell{{text: s.Name}, state, {text: fmt.Sprint(s.Pods)}, {m.since(s.LastChange), m.styles.dim}, {text: sourceDetail(s)}}
		},
		open: func() *detail { return m.sourceDetail(*s) },
	}
}

// sourceDetail returns the detail of a source: what is wrong, and its status without the manifests.
func (m *model) sourceDetail(s v1alpha1.SourceStatus) *detail {
	if s.File != nil {
		s.File = new(*s.File)
		s.File.Manifests = nil
	}
	if s.HTTP != nil {
		s.HTTP = new(*s.HTTP)
		s.HTTP.Manifests = nil
	}
	d := m.objectDetail("Source "+s.Name, &s)
	wrong := m.fields("Error", s.LastError)
	for _, fix := range mend.Source(&s) {
		wrong = append(wrong, m.fields("Fix", fix)...)
	}
	if len(wrong) > 0 {
		d.lines = append(append(wrong, ""), d.lines...)
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

// subscriberRow returns the row of a subscriber and its lag.
func (m *model) subscriberRow(s *v1alpha1.Subscriber) *row {
	lag := cell{text: fmt.Sprint(s.Lag)}
	if s.Lag > 0 {
		lag.style = m.styles.warn
	}
	agent := s.UserAgent
	if s.PID != 0 && int(s.PID) == m.config.PID {
		agent += " (this view)"
	}
	return &row{
		key: fmt.Sprint(s.ID),
		cells: func() []cell {
			return []cell{{text: cmp.Or(cli.Address(s), fmt.Sprint("pid ", s.PID))}, lag, {text: fmt.Sprint(s.Resets)}, {text: string(s.Mode)}, {m.since(&s.Since), m.styles.dim}, {text: agent}}
		},
		open: func() *detail { return m.objectDetail(fmt.Sprintf("Subscriber %d", s.ID), s) },
	}
}

// manifest is a manifest of a source.
type manifest struct {
	v1alpha1.Manifest
	source string
}

// manifestRows returns the rows of the manifests of all sources, those with a fault first. It sets what the title of the pane
// says about them.
func (m *model) manifestRows(p *pane) (rows []*row) {
	var all []*manifest
	faults := 0
	p.omitted, p.about = 0, ""
	for i := range m.status.Sources {
		s := &m.status.Sources[i]
		shown, omitted := mend.Manifests(s)
		for _, of := range shown {
			all = append(all, &manifest{of, s.Name})
			if slices.Contains(order, of.State) {
				faults++
			}
		}
		for state, n := range omitted {
			p.omitted += n
			if slices.Contains(order, state) {
				faults += n
			}
		}
	}
	if faults > 0 {
		p.about = fmt.Sprintf(", %d not accepted", faults)
	}
	slices.SortStableFunc(all, func(a, b *manifest) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Path, b.Path))
	})
	for _, of := range all {
		rows = append(rows, m.manifestRow(of))
	}
	return rows
}

// order puts the manifests with a fault before those with a warning.
var order = []v1alpha1.ManifestState{v1alpha1.ManifestRejected, v1alpha1.ManifestHeld, v1alpha1.ManifestShadowed}

func (of *manifest) rank() int {
	if i := slices.Index(order, of.State); i >= 0 {
		return i
	}
	if len(of.Warnings) > 0 {
		return len(order)
	}
	return len(order) + 1
}

func (m *model) manifestRow(of *manifest) *row {
	pod := ""
	if of.Name != "" {
		pod = of.Namespace + "/" + of.Name
	}
	return &row{
		key: of.source + " " + of.Path + " " + of.UID, pod: pod,
		search: strings.ToLower(of.Path + " " + pod + " " + string(of.State) + " " + of.source),
		cells: func() []cell {
			return []cell{{text: filepath.Base(of.Path)}, {string(of.State), m.styles.verdict(of.State)}, {text: pod}, {text: of.about()}}
		},
		open: func() *detail { return m.verdictDetail(of, pod) },
	}
}

// about returns the message, or the warnings.
func (of *manifest) about() string {
	if len(of.Warnings) == 0 {
		return of.Message
	}
	return strings.TrimPrefix(of.Message+"; ", "; ") + "warning: " + strings.Join(of.Warnings, "; warning: ")
}

func (s *styles) verdict(state v1alpha1.ManifestState) ansi.Style {
	switch state {
	case v1alpha1.ManifestAccepted:
		return s.good
	case v1alpha1.ManifestRejected:
		return s.bad
	case v1alpha1.ManifestIgnored:
		return s.dim
	}
	return s.warn
}

// verdictDetail returns the detail of a manifest.
func (m *model) verdictDetail(of *manifest, pod string) *detail {
	verdict := string(of.State)
	if of.Reason != "" {
		verdict += " (" + of.Reason + ")"
	}
	line := ""
	if n := mend.Line(of.Message); n > 0 {
		line = strconv.Itoa(n)
	}
	lines := m.fields("Manifest", of.Path, "Line", line, "Source", of.source, "Verdict", verdict, "Pod", pod, "UID", of.UID)
	if of.Message != "" {
		lines = append(lines, "", m.styles.verdict(of.State).Styled(clean(of.Message)))
	}
	if of.State != v1alpha1.ManifestAccepted {
		lines = append(lines, "")
		for _, fix := range mend.Manifest(&of.Manifest) {
			lines = append(lines, m.fields("Fix", fix)...)
		}
	}
	for _, warning := range of.Warnings {
		lines = append(lines, "", m.styles.warn.Styled("warning: "+clean(warning)))
	}
	if pod != "" {
		lines = append(lines, "", m.styles.dim.Styled("In the list, y, h, d and w open the YAML, the history, the differences and the health of the pod."))
	}
	return m.newDetail("Manifest "+of.Path, lines)
}
