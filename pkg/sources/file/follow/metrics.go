package follow

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	scans, overflows prometheus.Counter
	watching         prometheus.Gauge
}

// newMetrics registers the metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help}
	}
	m := &metrics{
		scans: prometheus.NewCounter(prometheus.CounterOpts(opts("scans_total", "Listings of the manifest path."))),
		overflows: prometheus.NewCounter(prometheus.CounterOpts(opts("watch_overflows_total",
			"Times that the inotify queue overflowed and the path was listed again."))),
		watching: prometheus.NewGauge(prometheus.GaugeOpts(opts("watching",
			"1 while inotify reports changes, 0 while the path is polled."))),
	}
	if reg != nil {
		reg.MustRegister(m.scans, m.overflows, m.watching)
	}
	return m
}
