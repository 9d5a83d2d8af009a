// Package journal gives each update a revision and lets any number of readers
// follow from any revision that is still there.
//
// # Guarantees
//
// To one reader the stream is ordered (revisions only grow), complete (nothing is
// left out without being announced) and unique (no revision twice). It can be
// resumed: after revision R follows exactly what came after R; and where that is
// gone, a frame with Reset says so and the present state follows.
//
// # Sides
//
// The writing side never waits: [Journal.Append] puts the update into a ring and
// wakes whoever waits. The updates that one source set gave become visible
// together. A reader holds a [Cursor], which is a position and, in the snapshot
// modes, a list of pods; a slow one costs the others nothing. One that falls out of
// the ring's other end is reset, not dropped.
//
// # Encoding
//
// A pod is encoded once for each wire form, by the first reader that needs it, and
// all readers share the bytes. So are frames, between readers that select nothing.
//
// # Undo
//
// The ring keeps with each pod the version before it. This is what lets a
// selection be one of pods and not of events (a pod that comes to match is an ADD
// to that reader), and what gives the state at any revision that can be resumed
// from, by walking back from the present one.
package journal
