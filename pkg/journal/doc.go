// Package journal gives each update a revision. Any number of subscribers can read from
// any revision that the journal still has. The journal only stores: package view selects
// what a subscriber gets, and package wire encodes it.
//
// A writer appends updates. A reader asks for the sets after a revision, and waits for more:
//
//	j := journal.New(journal.Options{Sources: []string{"file"}})
//	j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: pods})
//	for revision := start; ; {
//		reading, err := j.After(revision, nil, 64)
//		if err != nil {
//			return err // the journal no longer has these revisions
//		}
//		for _, set := range reading.Sets {
//			revision = set.Revision
//		}
//		if reading.Changed != nil {
//			<-reading.Changed
//		}
//	}
//
// # Guarantees
//
// The stream of one subscriber is
//
//   - ordered: revisions only increase,
//   - complete: no update is missing without a notice,
//   - unique: it has no update twice,
//   - resumable: after revision R come exactly the updates after R. If the journal no longer has
//     them, the subscriber gets a notice.
//
// # Revisions
//
// Each pod of an update has its own revision. The update has the revision of its last
// pod. So a client that reads pods one by one can resume between two pods of an update
// and misses neither.
//
// # Sets
//
// The ring holds sets. All changes of one set of a source become visible together, are
// read together and leave the ring together. The newest set always stays, whatever its
// size. So a subscriber that keeps up is never reset. If the newest set alone exceeds the
// limit of the ring, it leaves after some time, in which subscribers that keep up have
// read it.
//
// # Writers and subscribers
//
// Writing never waits: [Journal.Append] adds the set to the ring and wakes the waiting
// subscribers. A subscriber has a revision, and reads with [Journal.After] and
// [Journal.Snapshot]. While it waits for its client, it holds no pods. So a slow
// subscriber costs only its entry.
//
// # Tables
//
// A table (table.go) is the state at one revision. It is immutable, and shares with the next table all
// that does not change. Each set has the table before it and the table after it. So the state at
// any revision that can be resumed from is known, and a list holds no lock.
//
// The ring keeps, for each pod, also the version before the update. So a selection is of pods, not
// of events: a pod that starts to match is an ADD to the subscriber.
//
// # Objects
//
// The node and the namespaces of the pods have revisions of the same sequence. A set has the
// changes of them beside its updates. They are not stored, so subscribers to objects start
// again after a restart: docs/adr/0007-one-sequence-of-revisions.md.
//
// # Durability
//
// With a [Store], a set becomes visible after it is stored. The intake (intake.go) gives
// revisions to updates, writes the next table and is ahead of what subscribers see. The method commit (append.go) is
// the only way from the intake to subscribers. At a start, the journal begins with the stored
// state and commits the stored sets again. They get the same revisions, so subscribers resume.
package journal
