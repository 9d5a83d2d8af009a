package status

import (
	"fmt"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/cli"
)

// mirrorPodsSection returns the status of the mirror pods.
func mirrorPodsSection(m *v1alpha1.MirrorStatus) *page {
	p := new(page)
	state, severity := "", normal
	switch {
	case m.Stopped != nil:
		state, severity = ", stopped: "+m.Stopped.Reason, bad
		if m.Stopped.Until != nil {
			state += "; tries again at " + m.Stopped.Until.Local().Format(time.TimeOnly)
		}
	case m.Waiting != "":
		state, severity = ", waiting: "+m.Waiting, warning
	}
	p.label(severity, "Mirrors:", fmt.Sprintf("%d of %d static pods%s", m.Pods, m.StaticPods, state))
	if len(m.Problems) == 0 {
		return p
	}
	rows := make([]tableRow, 0, len(m.Problems))
	for i := range m.Problems {
		problem := &m.Problems[i]
		rows = append(rows, tableRow{[]string{problem.Namespace + "/" + problem.Name, cli.Age(&problem.Since), problem.Message}, bad})
	}
	p.table([]string{"MIRROR POD", "SINCE", "PROBLEM"}, rows)
	if m.ProblemsOmitted > 0 {
		p.add(bad, "and %d more", m.ProblemsOmitted)
	}
	return p
}
