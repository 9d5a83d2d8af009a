// Package history judges what subscribers were sent. A history is all that one subscriber
// received, in order, over all of its connections. The checker knows nothing of the daemon
// but these histories. It holds each to the six promises by which etcd judges its watches,
// see https://etcd.io/docs/v3.6/learning/api_guarantees/#watch-apis:
//
//   - Ordered: revisions only grow.
//   - Unique: no revision comes twice.
//   - Reliable: nothing between two revisions is left out. What is left out is announced by
//     a reset, and a reset has a cause.
//   - Atomic: all pods of an update come together, and every subscriber gets the same.
//   - Resumable: after revision R comes exactly what came after R. A message that has a
//     revision can be resumed from.
//   - Bookmarkable: a bookmark of revision R comes after everything up to R.
//
// # The log
//
// etcd's tests compare with etcd's log. podconfigd has none on disk, so the checker makes
// one: the updates of all subscribers that take everything, joined by their revisions. Each
// pod of an update has a revision of its own, so the log shows where something is missing.
// Of what no such subscriber has seen, nothing is judged but the order of the revisions.
package history
