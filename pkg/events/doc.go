// Package events writes Kubernetes Events for the conditions in the status: manifests that are
// Rejected, Held or Shadowed, sources that are degraded, and sets that the removal brake holds.
//
// Each event is on the Node. An event for a manifest is also on the mirror pod of its name, if
// there is one.
//
// # What is written
//
// The [Recorder] looks at the status every second, and compares it with what it has written. It
// writes one event for each change of a condition, and one when the condition ends. A condition
// that can't be written now, because of a limit, missing permissions or an apiserver that does
// not answer, is written later if it still exists. So there is no queue, and nothing that the
// status has is lost. A condition that ends before it could be written is not written.
//
// client-go's [k8s.io/client-go/tools/record.EventCorrelator] counts equal events in one object,
// and aggregates events of one manifest that differ only by their message. client-go's
// EventRecorder is not used: it drops the events that the apiserver rejects, the events after the
// first 25 of an object, and all of them after 12 attempts, and its goroutines can't be waited
// for.
//
// # Limits
//
// All requests have the rate of Options.QPS and Options.Burst. Events for manifests and for one
// condition have lower rates of their own, so that manifests that change all the time do not fill
// the apiserver.
package events
