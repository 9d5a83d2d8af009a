// Package store keeps what the journal has shown in an append-only log on disk, so that
// a daemon that starts again goes on where the last one stopped.
//
//	log, recovered, err := store.Open(store.Options{Dir: dir, Node: node})
//	if err != nil {
//		return err
//	}
//	j := journal.New(journal.Options{Store: log, Recovered: &recovered.Recovered})
//	go log.Run(ctx)
//
// [History] reads the changes that a directory has, also while a daemon writes to it.
//
// # The seam to the journal
//
// A set of the journal is the unit: what one set of a source changed, with the revision of each
// pod. [Log] is a [journal.Store]: the journal gives it the set once it has its revisions, and shows it when the
// log calls back, which is after write(2) has returned. The callback has the instance
// under which to show the set. If that is another instance than before, the journal takes
// it over first: its subscribers are reset. So what could not be stored is never shown
// under an instance that a later start restores.
//
// Every revision that anybody sees must have been appended, including a revision that comes with a
// bookmark or with an operation that is not stored. A set without updates is enough: it only moves
// the revision. Only updates with an operation of the config are stored.
//
// At a start, [Open] returns what the journal begins with, as [Recovered]:
//
//   - Instance and Revision take the place of the new instance and of its first revision.
//     Where a new instance begins, Revision is above all revisions of the earlier ones.
//   - Base is an earlier state: the pods, and what is known of each source, such as an ETag. Sets came
//     after it. Committed one by one, they give the same ring, the same state, and Revision.
//   - Note is what [Log.Remember] stored last: what else the next start needs so that the sets mean the same.
//
// The log applies no set. It has the state as the table of the set (journal.Table), or at a start of [Log.Begin].
//
// A restored pod went through protobuf, where an empty list and a missing one are the
// same. To find out whether a source's pod is the restored one, compare their protobuf
// forms, and not the objects with reflect.DeepEqual.
//
// # Files
//
// A segment has a preamble with the format version, a header (instance, node name, boot
// ID, note), a snapshot of the state that it starts from, then frames with sets. A frame has its
// length, two checksums (CRC32C) and its body. A process appends only to segments that it
// made itself: each start makes a new one. The header says how far the segment before it
// counts. What follows there was cut.
//
// The writer begins a new segment between two sets. It writes header and snapshot, and changes over. If that fails,
// the old segment goes on, and a start ignores the new one. The old segment, the directory and the new segment are synced
// after that, in this order. So no set waits for fsync. An exception is the first segment of a process, so that a clean
// stop of the process before it can't be taken for one of this process. A clean stop syncs all before it is recorded.
//
// After a power loss, the new segment may be incomplete: then a start uses the old one. If the new segment is
// complete and the old one has lost its end, a start needs only the new one: nobody resumes.
//
// # Instances
//
// The instance goes on if the machine has not been booted since, or the last process
// stopped cleanly. Otherwise the state is restored and the instance is new: what was
// written in the last second may be lost, and nobody must resume from it. It is also new
// if something that the start needs is damaged. Segments that are older than what is
// restored are verified after the start. If one is damaged, the history has a hole, and
// the instance stays.
//
// # Failures
//
// A write or fsync that fails, or a write that takes longer than a second, puts the log
// into the failed state. The segment is closed and never appended to again. The instance
// changes with the next set. Sets go on from memory. Every second to every half minute, the log tries
// whether a segment can be written and synced. Then the writer begins one, and sets wait for write(2)
// again.
package store
