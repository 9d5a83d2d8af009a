package store

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	written  prometheus.Counter
	failures prometheus.Counter
}

// newMetrics registers the log's metrics, if there is a registry.
func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "podconfigd", Subsystem: "store", Name: name, Help: help}
	}
	auto := promauto.With(reg)
	gauge := func(name, help string, read func(Status) float64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return read(l.Status()) })
	}
	gauge("healthy", "1 while updates are stored, 0 while the stream goes on from memory.", func(s Status) float64 {
		if s.Err == nil {
			return 1
		}
		return 0
	})
	gauge("bytes", "Size of the segments.", func(s Status) float64 { return float64(s.Bytes) })
	gauge("segments", "Number of segments.", func(s Status) float64 { return float64(s.Segments) })
	return &metrics{
		written:  auto.NewCounter(prometheus.CounterOpts(opts("written_bytes_total", "Bytes of updates written."))),
		failures: auto.NewCounter(prometheus.CounterOpts(opts("failures_total", "Times that updates could not be stored any more."))),
	}
}
