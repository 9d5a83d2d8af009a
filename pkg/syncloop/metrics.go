package syncloop

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	iterations   *prometheus.CounterVec
	housekeeping prometheus.Histogram
}

// newMetrics registers the metrics of the loop. If reg is nil, it registers none.
func newMetrics(reg prometheus.Registerer, l *Loop) *metrics {
	const namespace, subsystem = "podconfigd", "sync_loop"
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "last_active_timestamp_seconds",
		Help: "Unix time at which the last iteration of the sync loop ended. 0 before the first.",
	}, func() float64 {
		at := l.LastActive()
		if at.IsZero() {
			return 0
		}
		return float64(at.UnixNano()) / 1e9
	})
	return &metrics{
		iterations: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "iterations_total",
			Help: "Number of iterations of the sync loop, by channel.",
		}, []string{"channel"}),
		housekeeping: factory.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "housekeeping_duration_seconds",
			Help: "Duration of housekeeping in seconds.", Buckets: prometheus.ExponentialBuckets(0.0001, 10, 6),
		}),
	}
}
