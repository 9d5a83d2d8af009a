package config

import "time"

// Tracer makes the traces of sets.
type Tracer interface {
	// Trace returns the trace of a set of a source; nil if the set is not traced.
	Trace(source string, event Event) Trace
}

// Trace records the way of one set from its event to the last subscriber. Its methods are safe
// for concurrent use, and block nothing.
type Trace interface {
	// Merged records the merge, which began at started and ends now.
	Merged(started time.Time, updates []PodUpdate)
	// Recorded records that as many subscribers can read the set. Each of them reports Written
	// or Skipped, or leaves.
	Recorded(started time.Time, revision int64, subscribers int)
	// Written records that all that a subscriber gets of the set was written to it, from started
	// to ended.
	Written(subscriber int64, started, ended time.Time)
	// Skipped records that a subscriber gets nothing of the set.
	Skipped()
}

// SetTracer makes the traces of sets. It is called before Run. Without it, nothing is traced.
func (c *PodConfig) SetTracer(tracer Tracer) { c.tracer = tracer }

// trace begins the trace of a set that changed something.
func (c *PodConfig) trace(in *sourcedSet, started time.Time, updates []PodUpdate) {
	if c.tracer == nil || len(updates) == 0 || in.set.Event.Time.IsZero() {
		return
	}
	if in.set.Event.Trace = c.tracer.Trace(in.source, in.set.Event); in.set.Event.Trace != nil {
		in.set.Event.Trace.Merged(started, updates)
	}
}
