package podsapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
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

func newMetrics(reg prometheus.Registerer, c *Client) *metrics {
	in := metric.In(reg, "kubelet_pods_api")
	in.GaugeFunc("connected", "1 while the kubelet gives the status of pods; otherwise 0.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return metric.Bool(c.connected)
	})
	in.GaugeFunc("lost", "1 while the kubelet does not answer, although it did before, or the path of its socket is configured; otherwise 0.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return metric.Bool(!c.connected && c.expected())
	})
	unknown := func(to string, read func() float64) {
		in := metric.In(prometheus.WrapRegistererWith(prometheus.Labels{"to": to}, reg), "kubelet_pods_api")
		in.GaugeFunc("unknown_pods", "Number of pods that one side does not have: the kubelet, or the sources. 0 while the kubelet does not answer.", read)
	}
	unknown("kubelet", func() float64 {
		pods, _ := c.unknown()
		return float64(len(pods))
	})
	unknown("sources", func() float64 {
		_, pods := c.unknown()
		return float64(len(pods))
	})
	return &metrics{
		connections: in.Counter("watches_total", "Number of watches that podconfigd opened at the Pods API of the kubelet."),
		events:      in.Counter("events_total", "Number of events from the kubelet after the first ones of a watch."),
		drops:       in.Counter("drops_total", "Number of times that the kubelet dropped the watch, because it was 100 events behind."),
		requests:    in.CounterVec("requests_total", "Number of requests to the kubelet, by method: ListPods or GetPod.", "method", listPods, getPod),
	}
}
