package sources

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics that every source has.
type Metrics struct {
	lastSuccess prometheus.Gauge
	errors      *prometheus.CounterVec
}

// NewMetrics registers the metrics of a source unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	factory := promauto.With(reg)
	return &Metrics{
		lastSuccess: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "source", Name: "last_success_timestamp_seconds",
			Help: "Unix time at which the source was last read without an error. 0 before the first time.",
		}),
		errors: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "source", Name: "errors_total",
			Help: "Number of attempts to read the source that failed, by reason.",
		}, []string{"reason"}),
	}
}

// Succeeded records that the source was read without an error.
func (m *Metrics) Succeeded() { m.lastSuccess.SetToCurrentTime() }

// NewDecodeDuration registers the histogram of the time to decode a manifest unless reg is nil.
func NewDecodeDuration(reg prometheus.Registerer) prometheus.Observer {
	return promauto.With(reg).NewHistogram(prometheus.HistogramOpts{
		Namespace: "podconfigd", Subsystem: "source", Name: "decode_duration_seconds",
		Help:    "Time to decode, default and validate a manifest file, or the answer of a URL, in seconds.",
		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1},
	})
}
