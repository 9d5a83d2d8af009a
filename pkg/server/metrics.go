package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	frames, denials prometheus.Counter
	// remakes counts how often a socket file was created again, by socket.
	remakes *prometheus.CounterVec
	// rejections counts requests to https addresses that were refused, by reason.
	rejections *prometheus.CounterVec
	// limited counts what was refused because a limit was reached, by limit.
	limited *prometheus.CounterVec
}

// newMetrics registers the metrics of the server. If reg is nil, it registers none.
func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	m := &metrics{
		frames: factory.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "stream_frames_total",
			Help: "Number of frames sent to subscribers.",
		}),
		denials: factory.NewCounter(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "access_denials_total",
			Help: "Number of requests refused by the access rules.",
		}),
		remakes: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "socket_remakes_total",
			Help: "Number of times that a missing socket file was created again.",
		}, []string{"socket"}),
		limited: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "limit_refusals_total",
			Help: "Number of streams (subscribers), lists, scrapes, waiting lookups (waits), open calls (calls) and connections that were refused because a limit was reached, by limit.",
		}, []string{"limit"}),
		rejections: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podconfigd", Subsystem: "server", Name: "rejected_requests_total",
			Help: "Number of requests to https addresses that were refused: without valid credentials (unauthorized), not allowed (forbidden), the apiserver can not be asked (unavailable), or of an address with too many failures or connections (rate).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"unauthorized", "forbidden", "unavailable", "rate"} {
		m.rejections.WithLabelValues(reason)
	}
	return m
}
