// Package pleg is the pod lifecycle event generator. It emits an event for each change of
// a container in the container runtime.
//
// # Sources of changes
//
// A [Generator] lists the sandboxes and containers of the runtime every second and
// compares them with its records. If the runtime has an event stream, the generator
// applies its events to the same records, and lists the runtime rarely. A change of a
// record emits an event. So a change that both a list and an event report is emitted once.
// If the event stream misses a change, the next list finds it.
//
// # Late reports
//
// Lists and events can arrive out of order. The state of a container changes only from
// created to running to exited to gone, and its ID is never reused. So a report with an
// earlier state is old, and the generator ignores it. If a list does not have a container,
// the container is gone only if it was recorded before the list was requested.
//
// # Slow runtimes
//
// Every call to the runtime has a deadline and its own goroutine. A list that hangs delays
// only lists. An inspection that hangs delays only its pod. The events of other pods are
// not delayed. The generator never waits for the receiver of its events.
//
// The types and rules are those of the kubelet (pkg/kubelet/pleg). The shared records of
// events and lists are different: see docs/explanation/kubelet-differences.md. Package pleg/cri
// implements the runtime with CRI. Without a runtime, use [None].
package pleg
