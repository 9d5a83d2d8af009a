// Package metric registers the metrics of one part of the daemon:
//
//	in := metric.In(reg, "mirror")
//	pods := in.Gauge("pods", "Number of mirror pods in the apiserver.")
//	requests := in.CounterVec("requests_total", "Number of requests, by operation.", "operation", "create", "delete")
//
// The full name of the first one is podconfigd_mirror_pods. Without a registerer, the metrics work and are not registered.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Part is a part of the daemon.
type Part struct {
	factory   promauto.Factory
	subsystem string
}

// In returns the part with a name. reg is nil for none.
func In(reg prometheus.Registerer, subsystem string) Part { return Part{promauto.With(reg), subsystem} }

func (p Part) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "podconfigd", Subsystem: p.subsystem, Name: name, Help: help}
}

// Counter returns a counter.
func (p Part) Counter(name, help string) prometheus.Counter {
	return p.factory.NewCounter(prometheus.CounterOpts(p.opts(name, help)))
}

// CounterFunc registers a counter whose value is read when metrics are requested.
func (p Part) CounterFunc(name, help string, read func() float64) {
	p.factory.NewCounterFunc(prometheus.CounterOpts(p.opts(name, help)), read)
}

// CounterVec returns counters by the value of a label. The counters of the given values exist from the start.
func (p Part) CounterVec(name, help, label string, values ...string) *prometheus.CounterVec {
	vec := p.Counters(name, help, label)
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

// Counters returns counters by the values of several labels.
func (p Part) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return p.factory.NewCounterVec(prometheus.CounterOpts(p.opts(name, help)), labels)
}

// Gauge returns a gauge.
func (p Part) Gauge(name, help string) prometheus.Gauge {
	return p.factory.NewGauge(prometheus.GaugeOpts(p.opts(name, help)))
}

// GaugeVec returns gauges by the value of a label.
func (p Part) GaugeVec(name, help, label string) *prometheus.GaugeVec {
	return p.factory.NewGaugeVec(prometheus.GaugeOpts(p.opts(name, help)), []string{label})
}

// GaugeFunc registers a gauge whose value is read when metrics are requested.
func (p Part) GaugeFunc(name, help string, read func() float64) {
	p.factory.NewGaugeFunc(prometheus.GaugeOpts(p.opts(name, help)), read)
}

// Histogram returns a histogram.
func (p Part) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return p.factory.NewHistogram(p.histogram(name, help, buckets))
}

// HistogramVec returns histograms by the value of a label.
func (p Part) HistogramVec(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
	return p.factory.NewHistogramVec(p.histogram(name, help, buckets), []string{label})
}

func (p Part) histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: "podconfigd", Subsystem: p.subsystem, Name: name, Help: help, Buckets: buckets}
}

// Bool returns 1 for true and 0 for false.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
