package server

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	frames prometheus.Counter
}

// newMetrics registers the server's metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{frames: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "podconfigd", Subsystem: "server", Name: "stream_frames_total",
		Help: "Lines written to readers of the stream.",
	})}
	if reg != nil {
		reg.MustRegister(m.frames)
	}
	return m
}
