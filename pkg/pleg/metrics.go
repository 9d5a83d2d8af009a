package pleg

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

type metrics struct {
	relists                     prometheus.Histogram
	relistErrors, inspectErrors prometheus.Counter
	fallbacks, dropped          prometheus.Counter
	events                      *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, g *Generator) *metrics {
	in := metric.In(reg, "pleg")
	in.GaugeFunc("last_seen_seconds", "Unix time of the last list of the runtime. 0 before the first.", func() float64 {
		if last := g.Status().LastRelist; last != nil {
			return float64(last.UnixNano()) / 1e9
		}
		return 0
	})
	in.GaugeFunc("evented", "1 while the daemon relies on the events of the runtime, else 0.", func() float64 { return metric.Bool(g.Status().Evented) })
	in.GaugeFunc("pods", "Number of pods in the runtime.", func() float64 { return float64(g.Status().Pods) })
	in.GaugeFunc("containers", "Number of containers in the runtime, without sandboxes.", func() float64 { return float64(g.Status().Containers) })
	return &metrics{
		relists:       in.Histogram("relist_duration_seconds", "Duration of lists of the runtime in seconds.", prometheus.ExponentialBuckets(0.001, 4, 8)),
		relistErrors:  in.Counter("relist_errors_total", "Number of failed lists of the runtime."),
		inspectErrors: in.Counter("inspect_errors_total", "Number of failed inspections of pods."),
		fallbacks:     in.Counter("fallbacks_total", "Number of times that the event stream of the runtime broke, or events were dropped, while the daemon relied on events."),
		dropped:       in.Counter("dropped_events_total", "Number of events of the runtime that were dropped because too many were waiting. The daemon relists instead."),
		events: in.CounterVec("events_total", "Number of emitted events, by type.", "type",
			string(ContainerStarted), string(ContainerDied), string(ContainerRemoved), string(PodSync), string(ContainerChanged)),
	}
}
