package file

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	reads, decodes, scans, overflows prometheus.Counter
	watching, degraded               prometheus.Gauge
	manifests                        *prometheus.GaugeVec
}

// newMetrics registers the source's metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help,
		})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help,
		})
	}
	m := &metrics{
		reads:     counter("reads_total", "Manifest files read."),
		decodes:   counter("decodes_total", "Manifest files decoded."),
		scans:     counter("scans_total", "Listings of the manifest path."),
		overflows: counter("watch_overflows_total", "Times that the inotify queue overflowed and the path was listed anew."),
		watching:  gauge("watching", "1 while changes are told by inotify, 0 while the path is polled."),
		degraded:  gauge("degraded", "1 while the path can't be read and its last set is held."),
		manifests: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: "manifests", Help: "Manifest files by state.",
		}, []string{"state"}),
	}
	if reg != nil {
		reg.MustRegister(m.reads, m.decodes, m.scans, m.overflows, m.watching, m.degraded, m.manifests)
	}
	return m
}
