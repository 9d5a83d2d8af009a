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

// printRuntime prints what is known of the container runtime.
func printRuntime(w io.Writer, r *v1alpha1.RuntimeStatus) error {
	way := "events"
	if !r.Events {
		way = "relisting"
	}
	state := "ok"
	if r.LastError != "" {
		state = r.LastError
	}
	if !r.Healthy {
		state = "unhealthy: " + state
	}
	fmt.Fprintln(w)
	if err := printTable(w, []string{"RUNTIME", "WAY", "PODS", "CONTAINERS", "RELISTED", "FALLBACKS", "STATE"}, [][]string{{
		r.Endpoint, way, fmt.Sprint(r.Pods), fmt.Sprint(r.Containers), age(r.LastRelist), fmt.Sprint(r.Fallbacks), state,
	}}); err != nil {
		return err
	}
	told := make([]string, 0, len(r.Told))
	for _, kind := range slices.Sorted(maps.Keys(r.Told)) {
		told = append(told, fmt.Sprintf("%s %d", kind, r.Told[kind]))
	}
	if len(told) == 0 {
		told = []string{"none"}
	}
	fmt.Fprintf(w, "Relists:   %d, %d of them failed; p50 %s, p99 %s\nEvents:    %s; %d came from the runtime\n",
		r.Relists, r.RelistErrors, seconds(r.RelistP50Seconds), seconds(r.RelistP99Seconds), strings.Join(told, ", "), r.Received)
	return nil
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
