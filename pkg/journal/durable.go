package journal

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Store stores sets. Package store has one that is on disk.
type Store interface {
	// Begin is called once, before Append, with the state before the first set.
	Begin(*Table)
	// Append adds the next set. It does not wait. show is called when the set must be shown: in the
	// order of sets, one at a time, from another goroutine.
	Append(set *Set, show func(Commit))
}

// Commit describes how to show a set.
type Commit struct {
	// Instance is the instance under which the set is shown.
	Instance string
	// Stored is true if the set has been written.
	Stored bool
}

// Source is the state of a source, except for its pods.
type Source struct {
	Name string
	// Seen is true if the source has delivered a set.
	Seen bool
	// Time is when the source was stored.
	Time time.Time
	// Attributes are the source's own, such as the ETag of its last set.
	Attributes map[string]string
}

// Recovered is what a store has at a start.
type Recovered struct {
	// Instance is the instance's ID, and Revision its newest revision.
	Instance string
	Revision int64
	// Reserved is not below any revision that an earlier process may have shown. The next
	// set is above it.
	Reserved int64
	// Base is an earlier state, and Sets are the sets after it. Their updates have only operation, source
	// and pods, and a REMOVE has only the names of its pods.
	Base *Table
	Sets []*Set
	// Resumed is true if the instance is that of the last process. Otherwise, nobody resumes from before Revision.
	Resumed bool
}

// NewStored returns a version of a pod that was stored.
func NewStored(source string, merged *v1.Pod, status *v1.PodStatus, revision int64, file *config.File) *Pod {
	p := newPod(source, merged, status)
	p.Revision, p.File = revision, file
	return p
}

// gap is a range of revisions, between after and before. No update of this instance has one of
// them. An earlier process may have shown them under an instance that was not stored. A client
// that knows only a revision must not resume from one of them.
type gap struct{ after, before int64 }

// restore starts the journal with the stored state, the newest stored sets and their revisions. A
// source that had been seen counts as restored until it is seen again.
func (j *Journal) restore(r *Recovered, floor int64) {
	in := &j.intake
	configured := in.bookmark.Sources
	in.bookmark = &Bookmark{Sources: make(map[string]v1alpha1.SourceState)}
	for name := range r.Base.sources {
		in.bookmark.Sources[name] = v1alpha1.SourceState{Seen: true}
	}
	in.load(r.Base)
	j.instance, j.table, j.compacted = r.Instance, in.table, r.Base.revision
	exact := true
	for _, set := range r.Sets {
		exact = j.replay(set) && exact
	}
	if !r.Resumed || !exact { // not exact: written by a version that numbers differently
		j.clearLocked()
		j.compacted = r.Revision
	}
	in.bookmark = &Bookmark{Sources: configured}
	for name := range configured {
		in.bookmark.Sources[name] = v1alpha1.SourceState{Restored: in.sources[name].Seen}
	}
	in.begin(r.Revision)
	in.head = max(floor, r.Reserved+1)
	j.gaps = append(j.gaps, gap{r.Revision, in.head})
	j.table, j.progress = in.table, r.Revision
	// What is not stored was not recorded.
	for _, op := range []config.PodOperation{config.SYNC, config.PLEG, config.HOUSEKEEPING, config.OWNERS} {
		j.demandLocked(op).since = r.Revision + 1
	}
}

// load loads the stored state.
func (in *intake) load(t *Table) {
	in.names.pods, in.sources, in.head = t.pods.Clone(), t.sources, t.revision
	for p := range t.all() {
		in.uids.replace(nil, p)
	}
	in.uids.changes()
	in.begin(t.revision)
}

// replay commits a stored set. It reports whether the set has the same revisions again.
func (j *Journal) replay(s *Set) (exact bool) {
	in := &j.intake
	if s.First > in.head+1 {
		j.gaps = append(j.gaps, gap{in.head, s.First - 1})
		in.head = s.First - 1
	}
	for _, source := range s.Sources {
		in.put(source)
	}
	var set *Set
	if len(s.Updates) == 0 {
		in.head = s.Revision
		set = in.finishSet(&Set{First: s.First, Time: s.Time})
	} else {
		updates, pods := make([]config.PodUpdate, len(s.Updates)), make([][]*Pod, len(s.Updates))
		for i, u := range s.Updates {
			updates[i] = config.PodUpdate{Op: u.Op, Source: u.Source, StatusOnly: u.StatusOnly, Attributes: in.sources[u.Source].Attributes}
			for _, p := range u.Pods {
				updates[i].Pods = append(updates[i].Pods, p.Merged)
				if u.Op != config.REMOVE {
					pods[i] = append(pods[i], new(*p)) // it gets its revision again
				}
			}
		}
		set = in.number(updates, pods, nil, s.Time)
		set.Objects = nil // those of PutNode and PutNamespaces are not stored
	}
	exact = set.Revision == s.Revision
	in.head = s.Revision
	j.commit(set)
	return exact
}

const (
	// tick is the period of Run.
	tick = 2 * time.Second
	// oversized is how long a set that alone exceeds the limit of the ring stays for
	// subscribers that keep up.
	oversized = 10 * time.Second
	// reserved is the number of revisions that are reserved at a time.
	reserved = 1 << 20
)

// Run does periodic work until the context is done, and returns its cause. It sends
// progress to subscribers that got no update, removes a set that alone exceeds the limit
// of the ring, and reserves revisions.
func (j *Journal) Run(ctx context.Context) error {
	j.begin()
	ceiling := int64(0)
	for {
		ceiling = j.reserveFrom(ctx, ceiling)
		if err := await.For(ctx, tick); err != nil {
			return err
		}
		j.Progress()
		j.trim(time.Now())
	}
}

// begin advances the revision after a restart, so that a subscriber to objects can resume. A set
// that is being stored advances it too.
func (j *Journal) begin() {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	if j.intake.head == j.restarted {
		j.commit(j.intake.advance(time.Now()))
	}
}

// reserveFrom reserves revisions if few are left below the ceiling, and returns the
// ceiling.
func (j *Journal) reserveFrom(ctx context.Context, ceiling int64) int64 {
	if j.reserve == nil {
		return ceiling
	}
	j.intake.mu.Lock()
	head := j.intake.head // a set that is being stored is shown next
	j.intake.mu.Unlock()
	if ceiling-head > reserved/2 {
		return ceiling
	}
	if err := j.reserve(head + reserved); err != nil {
		if ceiling == 0 {
			klog.FromContext(ctx).Error(err, "Reserving revisions failed; if the clock is set back before the next start, a client that resumes without an instance may miss updates")
		}
		return max(ceiling, 1) // retried at the next tick
	}
	return head + reserved
}

// Progress wakes subscribers that got no update, so that they send a bookmark. Their
// revision to resume from stays recent.
func (j *Journal) Progress() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.progress < j.table.revision {
		j.progress = j.table.revision
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// SetLimits changes Options.MaxUpdates and Options.MaxBytes. Sets beyond the new limits leave
// the ring at once.
func (j *Journal) SetLimits(maxUpdates int, maxBytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.maxUpdates, j.maxBytes = maxUpdates, maxBytes
	j.shrinkLocked()
}

// trim removes the newest set if it alone is too large and is old enough.
func (j *Journal) trim(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.ring.len(); n > 0 && j.bytes > j.maxBytes && now.Sub(j.ring.at(n-1).Time) >= oversized {
		j.clearLocked()
	}
}
