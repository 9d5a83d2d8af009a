package top

import (
	"regexp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
)

// verdictDetail returns the detail of a manifest.
func (m *model) verdictDetail(of *manifest) *detail {
	verdict := string(of.State)
	if of.Reason != "" {
		verdict += " (" + of.Reason + ")"
	}
	lines := m.fields("Manifest", of.Path, "Line", faultLine(of.Message), "Source", of.source, "Verdict", verdict, "Pod", of.podName(), "UID", of.UID)
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
		lines = append(lines, nil, []span{{"In the list, y, h and d open the YAML, the history and the differences of the pod.", m.styles.dim}})
	}
	return m.newDetail("Manifest "+of.Path, lines)
}

// faultLine returns the line that a message names, as in "web.yaml:10: spec: …", or "".
func faultLine(message string) string {
	if found := regexp.MustCompile(`^\S*:(\d+): `).FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}
