// Package pleg is the pod lifecycle event generator: it tells what changed in the
// container runtime, pod by pod.
//
// # Where events come from
//
// A [Generator] lists the runtime's sandboxes and containers every second and
// compares with what it knew. Where the runtime tells of events itself, they are
// taken as they come, and the lists become rare. Both feed the same records, and an
// event leaves when a record changes. So neither of two reports of one thing makes
// it be told twice, and what the stream of events missed, the next list brings.
//
// # Reports that are late
//
// Lists and events overtake one another. A container only ever goes from created to
// running to exited to gone, and its ID is never used again; so a report that would
// lead back is an old one and passed over. A container that a list does not have is
// gone only if it was known before the list was asked for.
//
// # What can hang
//
// The runtime can. Every call has a deadline and a goroutine of its own: a list that
// hangs delays the lists, an inspection that hangs delays its pod, and the events of
// the others go on. The generator never waits for who reads its events, either.
//
// The types and rules are the kubelet's (pkg/kubelet/pleg), the way events and lists
// share records is not: see docs/kubelet-differences.md. Package pleg/cri has the
// runtime that speaks CRI. A loop without a runtime gets [None].
package pleg
