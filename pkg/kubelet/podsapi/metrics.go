package podsapi

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The requests, in metrics.
const (
	listPods = "ListPods"
	getPod   = "GetPod"
)

type metrics struct {
	connections, events, drops prometheus.Counter
	requests                   *prometheus.CounterVec
}

// newMetrics registers the metrics. If reg is nil, it registers none.
func newMetrics(reg prometheus.Registerer, c *Client) *metrics {
	const namespace, subsystem = "podconfigd", "kubelet_pods_api"
	factory := promauto.With(reg)
	m := &metrics{
		connections: factory.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "watches_total",
			Help: "Number of watches that podconfigd opened at the Pods API of the kubelet.",
		}),
		events: factory.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "events_total",
			Help: "Number of events from the kubelet after the first ones of a watch.",
		}),
		drops: factory.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "drops_total",
			Help: "Number of times that the kubelet dropped the watch, because it was 100 events behind.",
		}),
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Number of requests to the kubelet, by method: ListPods or GetPod.",
		}, []string{"method"}),
	}
	m.requests.WithLabelValues(listPods)
	m.requests.WithLabelValues(getPod)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "connected",
		Help: "1 while the kubelet gives the status of pods; otherwise 0.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.connected {
			return 1
		}
		return 0
	})
	return m
}
