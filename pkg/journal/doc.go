// Package journal gives each update a revision and lets any number of subscribers
// follow from any revision that is still there. It stores: what a subscriber is told
// of it is package view's, and how that looks on the wire package wire's.
//
// # Guarantees
//
// To one subscriber the stream is ordered (revisions only grow), complete (nothing is
// left out without being announced) and unique (no revision twice). It can be
// resumed: after revision R comes exactly what came after R. Where that is gone, the
// subscriber is told so.
//
// # Revisions
//
// Each pod of an update has a revision of its own. The update is known by its last
// one. So a client that takes pods one by one can resume between two pods of an
// update, and loses neither.
//
// # Sets
//
// The ring holds sets: what one set of a source changed becomes visible together, is
// read together and leaves the ring together. The newest set stays whatever its size,
// so that a subscriber that keeps up is never reset. A set that alone is larger than
// the ring may be leaves after a while, when those who keep up have read it.
//
// # Sides
//
// The writing side never waits: [Journal.Append] puts the set into the ring and wakes
// the subscribers that wait. A subscriber has a revision, and reads with [Journal.After] and
// [Journal.Snapshot]. It holds no pods while it waits for its client, so a slow
// subscriber costs nothing but its place.
//
// # Undo
//
// The ring keeps with each pod the version before it. This is what lets a selection be
// one of pods and not of events (a pod that comes to match is an ADD to that
// subscriber), and what gives the state at any revision that can be resumed from, by
// walking back from the present one.
//
// # Durability
//
// A durable store has one place: commit, which all that gets a revision goes through.
// What it has to restore at a start is what New makes empty: the present state, and
// the newest revision.
package journal
