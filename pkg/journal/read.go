package journal

import (
	"fmt"
	"sort"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// CompactedError is the error for a revision that the journal no longer has.
type CompactedError struct{ message string }

// Compacted returns the error for a subscriber that can't go on for another reason.
func Compacted(reason string) *CompactedError { return &CompactedError{reason} }

// Error has the revision.
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
	r := Reading{Sets: buffer, Instance: j.instance, Progress: j.progress, Bookmark: j.bookmark}
	n := j.ring.len()
	i := j.searchLocked(revision)
	for ; i < n && len(r.Sets) < limit; i++ {
		r.Sets = append(r.Sets, j.ring.at(i))
	}
	if len(r.Sets) > 0 {
		r.Sets[0] = r.Sets[0].after(revision)
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
		return &CompactedError{fmt.Sprintf("a new instance began at revision %d: an update could not be stored", j.renewed)}
	case revision < j.compacted:
		return &CompactedError{fmt.Sprintf("the subscriber fell behind: updates up to revision %d are gone", j.compacted)}
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
		return &CompactedError{fmt.Sprintf("revision %d belongs to instance %s, this instance is %s", revision, instance, j.instance)}
	}
	if err := j.goneLocked(revision); err != nil {
		return err
	}
	for op := config.ADD; op <= config.BOOKMARK; op++ {
		if d := j.demand[op]; d != nil && ops[op] && revision <= d.hole {
			return &CompactedError{fmt.Sprintf("%s updates after revision %d were not recorded: no subscriber requested them", op, revision)}
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
		return &CompactedError{compactedMessage(revision, j.compacted)}
	case revision > j.head:
		return &CompactedError{fmt.Sprintf("revision %d is unknown: the newest revision is %d", revision, j.head)}
	}
	for _, g := range j.gaps {
		if g.after < revision && revision < g.before {
			return &CompactedError{fmt.Sprintf("revision %d is unknown: it was not stored before the last start", revision)}
		}
	}
	return nil
}
