package mirror

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// The operations of requests, in metrics.
const (
	opCreate = "create"
	opDelete = "delete"
	opStatus = "status"
)

type metrics struct {
	pods, stopped    prometheus.Gauge
	requests, errors *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "mirror")
	return &metrics{
		pods:    in.Gauge("pods", "Number of mirror pods that podconfigd has in the apiserver for static pods."),
		stopped: in.Gauge("stopped", "1 while no mirror pods are created, because another client manages those of the node; otherwise 0."),
		requests: in.CounterVec("requests_total", "Number of successful requests for mirror pods, by operation: create, delete or status.",
			"operation", opCreate, opDelete, opStatus),
		errors: in.CounterVec("errors_total", "Number of failed requests for mirror pods, by operation: create, delete or status.",
			"operation", opCreate, opDelete, opStatus),
	}
}
