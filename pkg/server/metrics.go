package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	frames prometheus.Counter
}

// newMetrics registers the server's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{frames: promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Namespace: "podconfigd", Subsystem: "server", Name: "stream_frames_total",
		Help: "Lines written to readers of the stream.",
	})}
}
