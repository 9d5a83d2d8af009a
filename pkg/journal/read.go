package journal

import (
	"fmt"
	"slices"
	"sort"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// CompactedError is the error for a revision that the journal no longer has.
type CompactedError struct {
	reason  ResetReason
	message string
}

// ResetReason is why a subscriber can't go on, as the label of a metric.
type ResetReason string

// The reasons.
const (
	// ResetBehind: the subscriber fell behind the ring.
	ResetBehind ResetReason = "behind"
	// ResetCompacted: the revision to resume from has left the ring.
	ResetCompacted ResetReason = "compacted"
	// ResetInstance: the revision to resume from belongs to another instance.
	ResetInstance ResetReason = "other_instance"
	// ResetUnknown: the journal never had the revision to resume from.
	ResetUnknown ResetReason = "unknown_revision"
	// ResetUnrecorded: the requested operations were not recorded since the revision.
	ResetUnrecorded ResetReason = "not_recorded"
	// ResetNotStored: an update could not be stored, so there is a new instance.
	ResetNotStored ResetReason = "not_stored"
	// ResetAccess: the access rules changed.
	ResetAccess ResetReason = "access_rules"
)

// ResetReasons returns all reasons.
func ResetReasons() []ResetReason {
	return []ResetReason{
		ResetBehind, ResetCompacted, ResetInstance, ResetUnknown, ResetUnrecorded, ResetNotStored, ResetAccess,
	}
}

// Compacted returns the error for a subscriber that can't go on for another reason.
func Compacted(reason ResetReason, message string) *CompactedError {
	return &CompactedError{reason, message}
}

// Error returns the message, which names the revision.
func (e *CompactedError) Error() string { return e.message }

// Reading is the result of After.
type Reading struct {
	// Sets are the next ones. The first is cut to the part after the revision.
	Sets []*Set
	// Changed is closed when there are more sets; nil if there are more already.
	Changed  <-chan struct{}
	Instance string
	// Progress is the revision for a bookmark, if the subscriber got no update.
	Progress int64
	Bookmark *Bookmark
}

// After returns the sets after a revision, at most limit, appended to buffer. The error
// is a CompactedError if the journal no longer has them.
func (j *Journal) After(revision int64, buffer []*Set, limit int) (Reading, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if err := j.behindLocked(revision); err != nil {
		return Reading{}, err
	}
	r := Reading{Sets: buffer, Instance: j.instance, Progress: j.progress, Bookmark: j.table.bookmark}
	n := j.ring.len()
	i := j.searchLocked(revision)
	for ; i < n && len(r.Sets) < limit; i++ {
		r.Sets = append(r.Sets, j.ring.at(i))
	}
	if len(r.Sets) > 0 {
		r.Sets[0] = r.Sets[0].rest(revision)
	}
	if i == n {
		r.Changed = j.changed
	}
	return r, nil
}

// behindLocked returns an error if a subscriber at the revision can't go on.
func (j *Journal) behindLocked(revision int64) error {
	switch {
	case revision < j.renewed:
		return &CompactedError{ResetNotStored, fmt.Sprintf("a new instance began at revision %d: an update could not be stored", j.renewed)}
	case revision < j.compacted:
		return &CompactedError{ResetBehind, fmt.Sprintf("the subscriber fell behind: updates up to revision %d are gone", j.compacted)}
	}
	return nil
}

// searchLocked returns the index of the first set with an update after the revision.
func (j *Journal) searchLocked(revision int64) int {
	n := j.ring.len()
	if n == 0 || j.ring.at(n-1).Revision <= revision {
		return n
	}
	if n > 1 && j.ring.at(n-2).Revision <= revision { // usually
		return n - 1
	}
	return sort.Search(n, func(i int) bool { return j.ring.at(i).Revision > revision })
}

// Resumable returns nil if a subscriber that requests the operations can resume from the
// revision, and otherwise the reason. An empty instance means this one.
func (j *Journal) Resumable(instance string, revision int64, ops Operations) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if instance != "" && instance != j.instance {
		return &CompactedError{ResetInstance, fmt.Sprintf("revision %d belongs to instance %s, this instance is %s", revision, instance, j.instance)}
	}
	if err := j.goneLocked(revision); err != nil {
		return err
	}
	for op := config.ADD; op <= config.OWNERS; op++ {
		if d := j.demand[op]; d != nil && ops[op] && revision < d.since {
			message := fmt.Sprintf("%s updates after revision %d were not recorded: no subscriber requested them", op, revision)
			if op == config.OWNERS { // always recorded, but not stored
				message = fmt.Sprintf("the owners of pods at revision %d are not stored: it is of before the last start of podconfigd", revision)
			}
			return &CompactedError{ResetUnrecorded, message}
		}
	}
	return nil
}

func compactedMessage(revision, compacted int64) string {
	return fmt.Sprintf("revision %d is compacted: updates up to %d are gone", revision, compacted)
}

func (j *Journal) goneLocked(revision int64) error {
	switch {
	case revision < j.compacted:
		return &CompactedError{ResetCompacted, compactedMessage(revision, j.compacted)}
	case revision > j.table.revision:
		return &CompactedError{ResetUnknown, fmt.Sprintf("revision %d is unknown: the newest revision is %d", revision, j.table.revision)}
	}
	for _, g := range j.gaps {
		if g.after < revision && revision < g.before {
			return &CompactedError{ResetUnknown, fmt.Sprintf("revision %d is unknown: it was not stored before the last start", revision)}
		}
	}
	return nil
}

// ring is a queue with access by index, from the oldest element on.
type ring[T any] struct {
	slots []T
	start int
	count int
}

const minRing = 64

// push appends an element.
func (r *ring[T]) push(v T) {
	if r.count == len(r.slots) {
		r.grow(max(minRing, 2*len(r.slots)))
	}
	r.slots[(r.start+r.count)%len(r.slots)] = v
	r.count++
}

// pop removes and returns the oldest element. The ring must not be empty.
func (r *ring[T]) pop() T {
	var zero T
	v := r.slots[r.start]
	r.slots[r.start] = zero
	r.start = (r.start + 1) % len(r.slots)
	r.count--
	return v
}

// at returns the i-th oldest element.
func (r *ring[T]) at(i int) T { return r.slots[(r.start+i)%len(r.slots)] }

func (r *ring[T]) len() int { return r.count }

func (r *ring[T]) grow(size int) {
	slots := make([]T, size)
	for i := range r.count {
		slots[i] = r.at(i)
	}
	r.slots, r.start = slots, 0
}

// memoized is the number of newest sets that keep the frames of views.
const memoized = 64

func (j *Journal) pushLocked(set *Set) {
	j.ring.push(set)
	j.updates += set.count()
	j.bytes += set.size
	j.shrinkLocked()
	if n := j.ring.len(); n > memoized {
		j.ring.at(n - 1 - memoized).forget()
	}
}

// shrinkLocked removes the oldest sets beyond the limits. The newest set stays, and if it has only
// the bookmark, the set before it too.
func (j *Journal) shrinkLocked() {
	keep := 1
	if n := j.ring.len(); n > 0 && j.ring.at(n-1).Readied {
		keep = 2
	}
	for j.ring.len() > keep && (j.updates > j.maxUpdates || j.bytes > j.maxBytes) {
		j.popLocked()
	}
}

func (j *Journal) popLocked() {
	set := j.ring.pop()
	j.updates -= set.count()
	j.bytes -= set.size
	j.compacted = set.Revision
	j.gaps = slices.DeleteFunc(j.gaps, func(g gap) bool { return g.before <= j.compacted })
}

// clearLocked empties the ring.
func (j *Journal) clearLocked() {
	for j.ring.len() > 0 {
		j.popLocked()
	}
}
