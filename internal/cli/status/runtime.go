package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/cli"
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
	if !r.Events && r.EventsError != "" {
		p.label(normal, "Events:", strings.ReplaceAll(r.EventsError, "\n", ": "))
	}
	return p
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
