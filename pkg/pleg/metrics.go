package pleg

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	relists                                prometheus.Histogram
	relistErrors, inspectErrors, fallbacks prometheus.Counter
	events                                 *prometheus.CounterVec
}

// newMetrics registers the generator's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer, g *Generator) *metrics {
	factory := promauto.With(reg)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "podconfigd", Subsystem: "pleg", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	gauge := func(name, help string, read func(Status) float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return read(g.Status()) })
	}
	gauge("last_seen_seconds", "Unix time of the last list; 0 before the first.", func(s Status) float64 {
		if s.LastRelist == nil {
			return 0
		}
		return float64(s.LastRelist.UnixNano()) / 1e9
	})
	gauge("evented", "1 while the runtime's own events are relied on.", func(s Status) float64 {
		if s.Evented {
			return 1
		}
		return 0
	})
	gauge("pods", "Pods that the runtime has.", func(s Status) float64 { return float64(s.Pods) })
	gauge("containers", "Containers that the runtime has, sandboxes not among them.", func(s Status) float64 { return float64(s.Containers) })
	return &metrics{
		relists: factory.NewHistogram(prometheus.HistogramOpts{
			Namespace: "podconfigd", Subsystem: "pleg", Name: "relist_duration_seconds",
			Help: "Time that listing the runtime's pods took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		relistErrors:  counter("relist_errors_total", "Lists that the runtime did not give."),
		inspectErrors: counter("inspect_errors_total", "Inspections of pods that failed."),
		fallbacks:     counter("fallbacks_total", "Times that the runtime's stream of events broke."),
		events: factory.NewCounterVec(prometheus.CounterOpts(
			opts("events_total", "Events made, by type.")), []string{"type"}),
	}
}
