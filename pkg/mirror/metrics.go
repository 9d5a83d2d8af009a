package mirror

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// newMetrics registers the metrics. If reg is nil, it registers none.
func newMetrics(reg prometheus.Registerer) *metrics {
	const namespace, subsystem = "podconfigd", "mirror"
	factory := promauto.With(reg)
	m := &metrics{
		pods: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "pods",
			Help: "Number of mirror pods that podconfigd has in the apiserver for static pods.",
		}),
		stopped: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "stopped",
			Help: "1 while no mirror pods are created, because another client manages those of the node; otherwise 0.",
		}),
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Number of successful requests for mirror pods, by operation: create, delete or status.",
		}, []string{"operation"}),
		errors: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "errors_total",
			Help: "Number of failed requests for mirror pods, by operation: create, delete or status.",
		}, []string{"operation"}),
	}
	for _, op := range []string{opCreate, opDelete, opStatus} {
		m.requests.WithLabelValues(op)
		m.errors.WithLabelValues(op)
	}
	return m
}
