package journal

import (
	"slices"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Update is one update. It does not change.
type Update struct {
	// First is the revision of its first pod, and Revision its last one, by which the
	// update is known.
	First, Revision int64
	Time            time.Time
	Op              config.PodOperation
	Source          string
	Pods            []*Pod
	// Before has, for each of Pods, the version that was present until then, or nil.
	Before []*Pod
	// Mirrors: a mirror pod is among Pods or Before.
	Mirrors bool
	// Event is there for PLEG.
	Event *v1alpha1.Event
}

// after returns the part of the update that came after the revision.
func (u *Update) after(revision int64) *Update {
	if revision < u.First {
		return u
	}
	n := min(int(revision-u.First+1), len(u.Pods))
	rest := *u
	rest.First, rest.Pods, rest.Before = revision+1, u.Pods[n:], u.Before[n:]
	return &rest
}

// Once returns the update with each pod once: where a source has a UID twice, the merge
// tells both, of which the second replaces the first.
func (u *Update) Once() *Update {
	again := func(before *Pod) bool { return before != nil && before.Revision >= u.First }
	if !slices.ContainsFunc(u.Before, again) {
		return u
	}
	once, before := *u, slices.Clone(u.Before)
	replaced := make([]bool, len(u.Pods))
	for i, b := range u.Before {
		if again(b) {
			n := b.Revision - u.First // of the pod that brought it
			before[i], replaced[n] = before[n], true
		}
	}
	once.Pods, once.Before = nil, nil
	for i, p := range u.Pods {
		if !replaced[i] {
			once.Pods, once.Before = append(once.Pods, p), append(once.Before, before[i])
		}
	}
	return &once
}

// Change is what a set does to a name or to a UID.
type Change struct {
	// Revision is the change's own: no other change of the set has it. It is 0 for a UID.
	Revision int64
	// Before and After are the pod of that name or UID; nil for none.
	Before, After *Pod
}

// Set is what one set of a source changed, or one update of another kind. All of it
// becomes visible at once. It does not change.
type Set struct {
	// First is the revision of its first pod, Revision its last one.
	First, Revision int64
	Time            time.Time
	Updates         []*Update
	// Names and UIDs are what the set does to the pods by name and by UID, in the order
	// of revisions.
	Names, UIDs []Change
	// Readied: with this set the last source was seen.
	Readied bool
	// Memo keeps what views make of the set, while it is one of the newest.
	Memo

	// size is how much memory it holds that the present state does not.
	size int64
}

// after returns the part of the set that came after the revision.
func (s *Set) after(revision int64) *Set {
	if revision < s.First {
		return s
	}
	rest := &Set{First: revision + 1, Revision: s.Revision, Time: s.Time, UIDs: s.UIDs, Readied: s.Readied}
	for _, u := range s.Updates {
		if u.Revision <= revision {
			continue
		}
		if part := u.after(revision); part == u || len(part.Pods) > 0 {
			rest.Updates = append(rest.Updates, part)
		}
	}
	n, _ := slices.BinarySearchFunc(s.Names, revision+1, func(c Change, r int64) int { return int(c.Revision - r) })
	rest.Names = s.Names[n:]
	return rest
}

// undo gives put the versions that were present before the set, the newest change
// first.
func (s *Set) undo(put func(key podKey, before *Pod)) {
	for _, u := range slices.Backward(s.Updates) {
		if !u.Op.IsConfig() {
			continue
		}
		for i, p := range slices.Backward(u.Pods) {
			put(p.key(), u.Before[i])
		}
	}
}
