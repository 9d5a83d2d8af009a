package pleg

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	relists                     prometheus.Histogram
	relistErrors, inspectErrors prometheus.Counter
	fallbacks, dropped          prometheus.Counter
	events                      *prometheus.CounterVec
}

// newMetrics registers the metrics of the generator. If reg is nil, it registers none.
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
	gauge("last_seen_seconds", "Unix time of the last list of the runtime. 0 before the first.", func(s Status) float64 {
		if s.LastRelist == nil {
			return 0
		}
		return float64(s.LastRelist.UnixNano()) / 1e9
	})
	gauge("evented", "1 while the daemon relies on the events of the runtime, else 0.", func(s Status) float64 {
		if s.Evented {
			return 1
		}
		return 0
	})
	gauge("pods", "Number of pods in the runtime.", func(s Status) float64 { return float64(s.Pods) })
	gauge("containers", "Number of containers in the runtime, without sandboxes.", func(s Status) float64 { return float64(s.Containers) })
	m := &metrics{
		relists: factory.NewHistogram(prometheus.HistogramOpts{
			Namespace: "podconfigd", Subsystem: "pleg", Name: "relist_duration_seconds",
			Help: "Duration of lists of the runtime in seconds.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		relistErrors:  counter("relist_errors_total", "Number of failed lists of the runtime."),
		inspectErrors: counter("inspect_errors_total", "Number of failed inspections of pods."),
		fallbacks:     counter("fallbacks_total", "Number of times that the event stream of the runtime broke, or events were dropped, while the daemon relied on events."),
		dropped:       counter("dropped_events_total", "Number of events of the runtime that were dropped because too many were waiting. The daemon relists instead."),
		events: factory.NewCounterVec(prometheus.CounterOpts(
			opts("events_total", "Number of emitted events, by type.")), []string{"type"}),
	}
	for _, kind := range []PodLifeCycleEventType{ContainerStarted, ContainerDied, ContainerRemoved, PodSync, ContainerChanged} {
		m.events.WithLabelValues(string(kind))
	}
	return m
}
