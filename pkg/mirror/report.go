package mirror

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
)

// maxProblems is the maximum number of problems in the status.
const maxProblems = 50

// show updates the status and the metrics. It logs when creation stops and when it goes on.
func (p *pass) show(ctx context.Context) {
	shown := v1alpha1.MirrorStatus{Pods: len(p.known), StaticPods: len(p.book.statics), Waiting: p.waiting(), Stopped: p.stop}
	for _, name := range slices.SortedFunc(maps.Keys(p.entries), compareNames) {
		e := p.entries[name]
		switch {
		case e.problem == "":
		case len(shown.Problems) == maxProblems:
			shown.ProblemsOmitted++
		default:
			shown.Problems = append(shown.Problems, v1alpha1.MirrorProblem{
				Namespace: name.Namespace, Name: name.Name, Message: e.problem, Since: e.since,
			})
		}
	}
	p.metrics.pods.Set(float64(shown.Pods))
	p.metrics.stopped.Set(metric.Bool(shown.Stopped != nil))
	p.mu.Lock()
	before := p.shown.Stopped
	p.shown = shown
	p.mu.Unlock()
	switch {
	case before == nil && p.stop != nil:
		klog.FromContext(ctx).Error(nil, "Stopped creating mirror pods", "reason", p.stop.Reason)
	case before != nil && p.stop == nil:
		klog.FromContext(ctx).Info("Creating mirror pods again")
	}
}

// waiting returns what the creation of mirror pods waits for; empty if for nothing.
func (p *pass) waiting() string {
	switch {
	case !p.book.mirrorsKnown:
		return "the pods of the apiserver are not known yet"
	case p.node == nil:
		return "the apiserver does not have the node"
	case p.node.DeletionTimestamp != nil:
		return "the node is being deleted in the apiserver"
	}
	return ""
}

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
