package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
)

// runtimeSection returns the status of the container runtime.
func runtimeSection(r *v1alpha1.RuntimeStatus) *page {
	p := new(page)
	mode := "events"
	if !r.Events {
		mode = "relisting"
	}
	state, severity := "ok", normal
	if r.LastError != "" {
		state, severity = r.LastError, warning
	}
	if !r.Healthy {
		state, severity = "unhealthy: "+state, bad
	}
	p.table([]string{"RUNTIME", "MODE", "PODS", "CONTAINERS", "RELISTED", "FALLBACKS", "STATE"}, []tableRow{{[]string{
		r.Endpoint, mode, fmt.Sprint(r.Pods), fmt.Sprint(r.Containers), cli.Age(r.LastRelist), fmt.Sprint(r.Fallbacks), state,
	}, severity}})
	emitted := make([]string, 0, len(r.Emitted))
	for _, kind := range slices.Sorted(maps.Keys(r.Emitted)) {
		emitted = append(emitted, fmt.Sprintf("%s %d", kind, r.Emitted[kind]))
	}
	if len(emitted) == 0 {
		emitted = []string{"none"}
	}
	p.label(normal, "Relists:", fmt.Sprintf("%d, %d failed; p50 %s, p99 %s", r.Relists, r.RelistErrors, seconds(r.RelistP50Seconds), seconds(r.RelistP99Seconds)))
	p.label(normal, "Emitted:", strings.Join(emitted, ", "))
	p.label(normal, "Received:", fmt.Sprintf("%d events from the runtime", r.Received))
	if r.Orphans+r.OrphansWaiting > 0 {
		p.label(orphansSeverity(r), "Orphans:", orphans(r))
	}
	if !r.Events && r.EventsError != "" {
		p.label(normal, "Events:", strings.ReplaceAll(r.EventsError, "\n", ": "))
	}
	return p
}

// orphansSeverity is a warning if there are pods that no source has.
func orphansSeverity(r *v1alpha1.RuntimeStatus) severity {
	if r.Orphans > 0 {
		return warning
	}
	return normal
}

func orphans(r *v1alpha1.RuntimeStatus) string {
	text := fmt.Sprintf("%d pods in the runtime are in no source", r.Orphans)
	if r.OrphansWaiting > 0 {
		text += fmt.Sprintf("; %d more are in none yet: not all sources have delivered their pods", r.OrphansWaiting)
	}
	return text
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}

// shownUnknown is the number of names in the status. --output=json has more.
const shownUnknown = 5

// addPodsAPI adds the connection to the kubelet's Pods API.
func addPodsAPI(p *page, a *v1alpha1.KubeletPodsAPI) {
	if a.Connected {
		p.label(normal, "Pods API:", fmt.Sprintf("%s, for %s: the status of %d of %d pods is by the kubelet", a.Socket, cli.Age(a.Since), a.Statuses, a.Pods))
		if a.LastError != "" {
			p.label(warning, "", a.LastError)
		}
	} else {
		text := a.Socket + " has given no status yet"
		if a.Since != nil {
			text = fmt.Sprintf("%s gives no status, for %s; the last one of %d pods stands", a.Socket, cli.Age(a.Since), a.Statuses)
		}
		p.label(bad, "Pods API:", strings.TrimSuffix(text+": "+a.LastError, ": "))
	}
	if len(a.UnknownToKubelet) > 0 {
		p.label(warning, "", "the kubelet does not have "+someOf(a.UnknownToKubelet))
	}
	if len(a.UnknownToSources) > 0 {
		p.label(warning, "", "the kubelet has, and no source does: "+someOf(a.UnknownToSources))
	}
}

// someOf lists the first names, and counts the others.
func someOf(names []string) string {
	if n := len(names) - shownUnknown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownUnknown], ", "), n)
	}
	return strings.Join(names, ", ")
}

// statusBy names the origin of the status of a pod.
func statusBy(by string) string {
	text := map[string]string{
		"kubelet": ", by the kubelet", "kubeletBefore": ", by the kubelet, which is away", "mirrorPod": ", by the kubelet, in the mirror pod",
		"runtime": ", by podconfigd",
	}
	return text[by]
}

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
		p.addLine(bad, "and %d more", m.ProblemsOmitted)
	}
	return p
}

// ownersText says which owners of pods are known, and why the others are not. It is empty if there are none, as for a client that does
// not see every pod: the daemon tells it nothing about them.
func ownersText(o *v1alpha1.OwnersStatus) string {
	if o.Known+o.Waiting == 0 && o.LastError == "" {
		return ""
	}
	known := fmt.Sprintf("%d known", o.Known)
	if o.Waiting > 0 {
		known += fmt.Sprintf(", %d waiting", o.Waiting)
	}
	if o.LastError != "" {
		known += ": " + o.LastError
	}
	parts := append([]string{known}, o.Notes...)
	if o.NotesOmitted > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", o.NotesOmitted))
	}
	return strings.Join(parts, "; ")
}

// devicesText says how many pods have devices, as the kubelet said last, and why it does not say so now.
func devicesText(d *v1alpha1.DevicesStatus) string {
	text := "not listed yet"
	if d.LastList != nil {
		text = fmt.Sprintf("%d pods, listed %s ago", d.Pods, cli.Age(d.LastList))
	}
	if d.LastError != "" {
		text += ": " + d.LastError
	}
	return text
}
