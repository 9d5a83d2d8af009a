package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	written  *prometheus.CounterVec
	failures prometheus.Counter
	pending  prometheus.Gauge
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	const namespace, subsystem = "podconfigd", "events"
	factory := promauto.With(reg)
	m := &metrics{
		written: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "written_total", Help: "Events that were written to the apiserver, by reason.",
		}, []string{"reason"}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "failures_total", Help: "Events that could not be written. They are tried again.",
		}),
		pending: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "pending", Help: "Events that are not written yet.",
		}),
	}
	for _, reason := range reasons {
		m.written.WithLabelValues(reason)
	}
	return m
}
