package manifests

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ reads, decodes prometheus.Counter }

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help,
		})
	}
	return &metrics{
		reads:   counter("reads_total", "Manifest files read."),
		decodes: counter("decodes_total", "Manifest files decoded."),
	}
}
