package follow

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	scans, overflows prometheus.Counter
	watching         prometheus.Gauge
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "podconfigd", Subsystem: "file_source", Name: name, Help: help}
	}
	return &metrics{
		scans: factory.NewCounter(prometheus.CounterOpts(opts("scans_total", "Listings of the manifest path."))),
		overflows: factory.NewCounter(prometheus.CounterOpts(opts("watch_overflows_total",
			"Times that the inotify queue overflowed and the path was listed again."))),
		watching: factory.NewGauge(prometheus.GaugeOpts(opts("watching",
			"1 while inotify reports changes, 0 while the path is polled."))),
	}
}
