package config

import "time"

// Event is what made a source send a set. It travels with the set, so that the delay of an
// update is known at each step. The zero value is no event: then the delay is not measured.
type Event struct {
	// Time is when the event arrived at the source: an event of inotify, the answer of a
	// server, an event of a watch, or the start of the listing that noticed the change. An
	// event that waited while the source was busy counts from when the source became busy.
	Time time.Time
	// Began is when the source began to read the change, and Read when it had the set.
	Began, Read time.Time
	// Trace records the way of the set; nil for none. PodConfig begins it.
	Trace Trace
}
