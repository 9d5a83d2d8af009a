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
// revisions to updates, writes the next table and is ahead of what subscribers see. The method commit (intake.go) is
// the only way from the intake to subscribers. At a start, the journal begins with the stored
// state and commits the stored sets again. They get the same revisions, so subscribers resume.
package journal

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Defaults of Options.
const (
	// DefaultMaxUpdates and DefaultMaxBytes limit the ring. They allow at least a
	// thousand versions of pods. An idle node makes a few each day.
	DefaultMaxUpdates = 8192
	DefaultMaxBytes   = 16 << 20
)

// Options configure a journal.
type Options struct {
	// Sources are the names of all sources. The journal is ready after an update from
	// each.
	Sources []string
	// MaxUpdates and MaxBytes limit the ring. MaxBytes is the approximate memory of the
	// versions of pods that are no longer current, and of earlier tables. The newest set stays
	// whatever its size, but see Run. 0 means the default.
	MaxUpdates int
	MaxBytes   int64
	// Floor is a revision below all revisions of this journal: the highest revision of an
	// earlier instance.
	Floor int64
	// Reserve, if set, is called by Run with a ceiling. No revision is above the ceiling
	// until the next call. If it fails, Run logs the error and retries.
	Reserve func(ceiling int64) error
	// Store makes the journal durable; nil to keep it in memory. Recovered is what the
	// store had at the start.
	Store     Store
	Recovered *Recovered
	// Node is the node, until the first PutNode; nil for none.
	Node *v1.Node
	// Registerer is for the journal's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Journal is the ordered sequence of updates, and the state that results from them. It is
// safe for concurrent use.
//
//	Append, RecordEvent, PutNode, ...
//	               |
//	            intake      revisions, and the next table
//	               |
//	             set -----> Store, if there is one
//	               |          |
//	               | <--------+  when it is stored
//	            /     \
//	       table       ring    the present state, and the newest sets
//	         |           |
//	Snapshot, ByUID    After
//
// To write, for example with [Journal.Append], [Journal.RecordEvent] or [Journal.PutNode]:
//  1. Make the versions of the pods, before the lock if it is an event.
//  2. Lock the intake. All writers do that, so the order of sets is the order of revisions.
//  3. Give the revisions, and write the next table. Readers do not see it yet.
//  4. commit: give the set to the store, which calls show when the set is stored. Without a store, call show at once.
//  5. show: replace the table, push the set into the ring, remove old sets from the ring, and wake the subscribers that wait.
//
// To read the present state, for example with [Journal.Snapshot], [Journal.ByUID] or [Journal.Objects]:
//  1. Take the pointer to the table.
//  2. Read the table without a lock. It never changes.
//
// To follow the updates:
//  1. Call [Journal.Subscribe], so that the operations that the subscriber requests are recorded.
//  2. Begin with a [Journal.Snapshot] and its revision, or with an earlier revision for which [Journal.Resumable] returns nil.
//  3. Read the next sets with [Journal.After].
//  4. If there are no more, wait until Reading.Changed is closed.
//  5. If the error is a [CompactedError], the ring no longer has the revision: begin again with a snapshot.
type Journal struct {
	maxUpdates int
	maxBytes   int64
	reserve    func(int64) error
	metrics    *metrics

	// store is nil for a journal in memory, and while what is stored is restored.
	store Store

	intake intake

	// mu guards the fields below. It is never held during a write to a subscriber or the
	// encoding of a pod.
	mu       sync.RWMutex
	instance string
	// table is the present state, at the newest revision.
	table *Table
	ring  ring[*Set]
	// compacted is the newest revision that left the ring.
	// At renewed, the present instance began while the process was running.
	compacted, renewed int64
	// gaps are the revisions that nobody can resume from.
	gaps []gap
	// progress is the revision for bookmarks of subscribers that got no update.
	progress int64
	// updates and bytes are the totals of the sets in the ring.
	updates int
	bytes   int64
	// objectsFrom is the first revision from which a subscriber to nodes and namespaces can resume.
	objectsFrom int64
	// restarted is the revision before the first set after a restart; 0 if nothing was restored.
	restarted int64
	// changed is closed and replaced when there is something new to read.
	changed chan struct{}
	// subscribers are the current ones, and demand is what they request of the runtime.
	subscribers map[*Subscriber]struct{}
	nextID      int64
	demand      map[config.PodOperation]*demand

	// orders are the latest sort orders of Snapshot.
	orders [orderCount]atomic.Pointer[sortedPods]
}

// New returns a journal with what was recovered. Without that, it is empty and has a new
// instance ID. Its revisions start at the current time in milliseconds, or above the floor
// if that is later. So revisions of earlier instances are lower.
func New(opts Options) *Journal {
	start := max(time.Now().UnixMilli(), opts.Floor+1)
	sources := make(map[string]v1alpha1.SourceState)
	for _, source := range opts.Sources {
		sources[source] = v1alpha1.SourceState{}
	}
	j := &Journal{
		instance:   string(uuid.NewUUID()),
		maxUpdates: cmp.Or(opts.MaxUpdates, DefaultMaxUpdates),
		maxBytes:   cmp.Or(opts.MaxBytes, DefaultMaxBytes),
		reserve:    opts.Reserve,
		compacted:  start, progress: start,
		intake:      newIntake(start, &Bookmark{Ready: len(sources) == 0, Sources: sources}),
		changed:     make(chan struct{}),
		subscribers: make(map[*Subscriber]struct{}),
		demand:      make(map[config.PodOperation]*demand),
	}
	j.intake.begin(start)
	j.table, j.objectsFrom = j.intake.table, start
	if opts.Recovered != nil {
		j.restore(opts.Recovered, start)
		j.objectsFrom, j.restarted = j.table.revision+1, j.intake.head
	}
	j.store = opts.Store // it has what was restored
	j.intake.restart(opts.Node, j.table.revision)
	j.table = j.intake.table
	if j.store != nil {
		j.store.Begin(j.table)
	}
	j.metrics = newMetrics(opts.Registerer, j)
	return j
}

// Instance returns the instance's ID.
func (j *Journal) Instance() string {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.instance
}

// present returns the present state.
func (j *Journal) present() *Table {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.table
}

// Revision returns the newest revision.
func (j *Journal) Revision() int64 { return j.present().revision }
