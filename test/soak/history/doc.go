// Package history judges the messages to subscribers. A history is everything that one
// subscriber received, in order, over all of its connections. The checker has only these
// histories. It checks the six promises by which etcd judges its watches, see
// https://etcd.io/docs/v3.6/learning/api_guarantees/#watch-apis:
//
//   - Ordered: revisions only increase.
//   - Unique: no update comes twice.
//   - Reliable: nothing between two revisions is left out, except with a reset. A reset has a
//     cause.
//   - Atomic: all pods of an update come together, and every subscriber gets the same.
//   - Resumable: after revision R come exactly the updates after R. A message with a revision
//     can be resumed from.
//   - Bookmarkable: a bookmark of revision R comes after everything up to R.
//
// # The log
//
// etcd's tests compare with etcd's log. The checker makes a log: the updates of all
// subscribers that select everything, joined by their revisions. Each pod of an update
// has its own revision, so the log shows where something is missing. If no such
// subscriber has seen an update, the checker only judges the order of the revisions.
package history
