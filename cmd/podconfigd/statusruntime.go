package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// printRuntime prints the status of the container runtime.
func printRuntime(w io.Writer, r *v1alpha1.RuntimeStatus) error {
	mode := "events"
	if !r.Events {
		mode = "relisting"
	}
	state := "ok"
	if r.LastError != "" {
		state = r.LastError
	}
	if !r.Healthy {
		state = "unhealthy: " + state
	}
	fmt.Fprintln(w)
	if err := printTable(w, []string{"RUNTIME", "MODE", "PODS", "CONTAINERS", "RELISTED", "FALLBACKS", "STATE"}, [][]string{{
		r.Endpoint, mode, fmt.Sprint(r.Pods), fmt.Sprint(r.Containers), age(r.LastRelist), fmt.Sprint(r.Fallbacks), state,
	}}); err != nil {
		return err
	}
	emitted := make([]string, 0, len(r.Emitted))
	for _, kind := range slices.Sorted(maps.Keys(r.Emitted)) {
		emitted = append(emitted, fmt.Sprintf("%s %d", kind, r.Emitted[kind]))
	}
	if len(emitted) == 0 {
		emitted = []string{"none"}
	}
	fmt.Fprintf(w, "Relists:   %d, %d failed; p50 %s, p99 %s\nEmitted:   %s\nReceived:  %d events from the runtime\n",
		r.Relists, r.RelistErrors, seconds(r.RelistP50Seconds), seconds(r.RelistP99Seconds), strings.Join(emitted, ", "), r.Received)
	if !r.Events && r.EventsError != "" {
		fmt.Fprintf(w, "Events:    %s\n", strings.ReplaceAll(r.EventsError, "\n", ": "))
	}
	return nil
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
