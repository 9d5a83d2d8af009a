package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	frames prometheus.Counter
	// remakes counts by socket.
	remakes *prometheus.CounterVec
}

// newMetrics registers the server's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	return &metrics{
		frames: factory.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "stream_frames_total",
			Help: "Lines written to readers of the stream.",
		}),
		remakes: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "socket_remakes_total",
			Help: "Times that the file of a socket was gone and was made again.",
		}, []string{"socket"}),
	}
}
