package config

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// mergeMetrics are the metrics of the merge. The arrays have an element for each operation of
// the config.
type mergeMetrics struct {
	duration         prometheus.Histogram
	operations, pods [RECONCILE + 1]prometheus.Counter
}

// Instrument registers the metrics of the merge. It is called before Run. Without it, there are
// none.
func (c *PodConfig) Instrument(reg prometheus.Registerer) {
	in := metric.In(reg, "merge")
	m := &mergeMetrics{duration: in.Histogram("duration_seconds", "Time to merge a set, in seconds.", prometheus.ExponentialBuckets(0.00001, 4, 9))}
	operations := in.CounterVec("operations_total", "Number of operations that the merge emitted, by operation.", "op")
	pods := in.CounterVec("pods_total", "Number of pods in the operations that the merge emitted, by operation.", "op")
	for op := range m.operations {
		name := PodOperation(op).String()
		m.operations[op], m.pods[op] = operations.WithLabelValues(name), pods.WithLabelValues(name)
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
		m.operations[updates[i].Op].Inc()
		m.pods[updates[i].Op].Add(float64(len(updates[i].Pods)))
	}
}

// Tracer makes the traces of sets.
type Tracer interface {
	// Trace returns the trace of a set of a source; nil if the set is not traced.
	Trace(source string, event Event) Trace
}

// Trace records the path of one set from its event to the last subscriber. Its methods are safe for
// concurrent use, and block nothing.
type Trace interface {
	// Merged records the merge, which began at started and ends now.
	Merged(started time.Time, updates []PodUpdate)
	// Recorded records how many subscribers can read the set. Each subscriber reports Written or Skipped, or
	// leaves.
	Recorded(started time.Time, revision int64, subscribers int)
	// Written records that the subscriber's part of the set was written to it, from started
	// to ended.
	Written(subscriber int64, started, ended time.Time)
	// Skipped records that a subscriber gets nothing of the set.
	Skipped()
}

// SetTracer makes the traces of sets. It is called before Run. Without it, nothing is traced.
func (c *PodConfig) SetTracer(tracer Tracer) { c.tracer = tracer }

// trace begins the trace of a set, if the set changed something.
func (c *PodConfig) trace(in *sourcedSet, started time.Time, updates []PodUpdate) {
	if c.tracer == nil || len(updates) == 0 || in.set.Event.Time.IsZero() {
		return
	}
	if in.set.Event.Trace = c.tracer.Trace(in.source, in.set.Event); in.set.Event.Trace != nil {
		in.set.Event.Trace.Merged(started, updates)
	}
}
