package top

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
)

// manifest is a row of the manifests.
type manifest struct {
	v1alpha1.Manifest
	source string
}

// verdicts has the verdicts on the manifests of all sources.
type verdicts struct {
	all   []*manifest // those with a fault first
	shown []*manifest
	// faults counts the manifests that are not accepted, omitted those that the status leaves
	// out.
	faults, omitted int
}

// order puts the manifests with a fault before those with a warning.
var order = []v1alpha1.ManifestState{v1alpha1.ManifestRejected, v1alpha1.ManifestHeld, v1alpha1.ManifestShadowed}

func (v *verdicts) take(status *v1alpha1.Status) {
	*v = verdicts{}
	for i := range status.Sources {
		s := &status.Sources[i]
		of, omitted := mend.Manifests(s)
		for _, m := range of {
			v.all = append(v.all, &manifest{m, s.Name})
			if m.State != v1alpha1.ManifestAccepted {
				v.faults++
			}
		}
		for state, n := range omitted {
			v.omitted += n
			if state != v1alpha1.ManifestAccepted {
				v.faults += n
			}
		}
	}
	slices.SortStableFunc(v.all, func(a, b *manifest) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Path, b.Path))
	})
}

func (m *manifest) rank() int {
	if i := slices.Index(order, m.State); i >= 0 {
		return i
	}
	if len(m.Warnings) > 0 {
		return len(order)
	}
	return len(order) + 1
}

func (v *verdicts) refresh(filter []string) {
	v.shown = v.shown[:0]
	for _, m := range v.all {
		if len(filter) == 0 || matches(strings.ToLower(m.Path+" "+m.podName()+" "+string(m.State)+" "+m.source), filter) {
			v.shown = append(v.shown, m)
		}
	}
}

// podName returns the name of the manifest's pod, or "".
func (m *manifest) podName() string {
	if m.Name == "" {
		return ""
	}
	return m.Namespace + "/" + m.Name
}

// about returns the message, or the warnings.
func (m *manifest) about() string {
	if len(m.Warnings) == 0 {
		return m.Message
	}
	return strings.TrimPrefix(m.Message+"; ", "; ") + "warning: " + strings.Join(m.Warnings, "; warning: ")
}

// manifestsPane shows the verdicts.
type manifestsPane struct{ m *model }

func (p manifestsPane) title() (name, about string) {
	v := &p.m.verdicts
	about = p.m.count(len(v.all) + v.omitted)
	if len(v.shown) != len(v.all) {
		about = fmt.Sprintf("%d of %s", len(v.shown), about)
	}
	if v.faults > 0 {
		about += fmt.Sprintf(", %d not accepted", v.faults)
	}
	return "Manifests", about
}

func (p manifestsPane) columns() []column {
	return []column{{title: "MANIFEST", flexible: true}, {title: "VERDICT"}, {title: "POD", flexible: true, optional: true}, {title: "MESSAGE", flexible: true}}
}

func (p manifestsPane) len() int { return len(p.m.verdicts.shown) }

func (p manifestsPane) key(i int) string {
	row := p.m.verdicts.shown[i]
	return row.source + " " + row.Path + " " + row.UID
}

func (p manifestsPane) row(i int) []cell {
	m := p.m.verdicts.shown[i]
	return []cell{{text: filepath.Base(m.Path)}, {string(m.State), p.m.styles.verdict(m.State)}, {text: m.podName()}, {text: m.about()}}
}

func (p manifestsPane) note() (string, bool) {
	if len(p.m.verdicts.all) > 0 {
		return "no manifest matches the filter", false
	}
	return p.m.statusNote("no manifests")
}

func (p manifestsPane) open(i int) *detail { return p.m.verdictDetail(p.m.verdicts.shown[i]) }

func (s *styles) verdict(state v1alpha1.ManifestState) ansi.Style {
	switch state {
	case v1alpha1.ManifestAccepted:
		return s.good
	case v1alpha1.ManifestRejected:
		return s.bad
	}
	return s.warn
}

// verdictDetail returns the detail of a manifest.
func (m *model) verdictDetail(of *manifest) *detail {
	verdict := string(of.State)
	if of.Reason != "" {
		verdict += " (" + of.Reason + ")"
	}
	line := ""
	if n := mend.Line(of.Message); n > 0 {
		line = strconv.Itoa(n)
	}
	lines := m.fields("Manifest", of.Path, "Line", line, "Source", of.source, "Verdict", verdict, "Pod", of.podName(), "UID", of.UID)
	if of.Message != "" {
		lines = append(lines, nil, []span{{clean(of.Message), m.styles.verdict(of.State)}})
	}
	if of.State != v1alpha1.ManifestAccepted {
		lines = append(lines, nil)
		for _, fix := range mend.Manifest(&of.Manifest) {
			lines = append(lines, m.fields("Fix", fix)...)
		}
	}
	for _, warning := range of.Warnings {
		lines = append(lines, nil, []span{{"warning: " + clean(warning), m.styles.warn}})
	}
	if name := of.podName(); name != "" {
		lines = append(lines, nil, []span{{"In the list, y, h, d and w open the YAML, the history, the differences and the health of the pod.", m.styles.dim}})
	}
	return m.newDetail("Manifest "+of.Path, lines)
}
