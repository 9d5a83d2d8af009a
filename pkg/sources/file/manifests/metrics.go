package manifests

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

type metrics struct {
	reads, decodes prometheus.Counter
	decodeDuration prometheus.Observer
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help,
		})
	}
	return &metrics{
		decodeDuration: sources.NewDecodeDuration(reg),

		reads:   counter("reads_total", "Manifest files read."),
		decodes: counter("decodes_total", "Manifest files decoded."),
	}
}
