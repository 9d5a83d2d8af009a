package manifests

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ reads, decodes prometheus.Counter }

// newMetrics registers the metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help,
		})
	}
	m := &metrics{
		reads:   counter("reads_total", "Manifest files read."),
		decodes: counter("decodes_total", "Manifest files decoded."),
	}
	if reg != nil {
		reg.MustRegister(m.reads, m.decodes)
	}
	return m
}
