package config

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// mergeMetrics are the metrics of the merge. The arrays have an element for each operation of
// the config.
type mergeMetrics struct {
	duration prometheus.Histogram
	pods     [RECONCILE + 1]prometheus.Counter
}

// Instrument registers the metrics of the merge. It is called before Run. Without it, there are
// none.
func (c *PodConfig) Instrument(reg prometheus.Registerer) {
	in := metric.In(reg, "merge")
	m := &mergeMetrics{duration: in.Histogram("duration_seconds", "Time to merge a set, in seconds.", prometheus.ExponentialBuckets(0.00001, 4, 9))}
	pods := in.CounterVec("pods_total", "Number of pods in the operations that the merge emitted, by operation.", "op")
	for op := range m.pods {
		m.pods[op] = pods.WithLabelValues(PodOperation(op).String())
	}
	c.metrics = m
}

// merged records the result of a merge.
func (m *mergeMetrics) merged(started time.Time, updates []PodUpdate) {
	if m == nil {
		return
	}
	m.duration.Observe(time.Since(started).Seconds())
	for i := range updates {
		m.pods[updates[i].Op].Add(float64(len(updates[i].Pods)))
	}
}
