package journal

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Update is one update. It is immutable.
type Update struct {
	Instance string
	// First is the revision of its first pod. Revision is that of its last pod, and of
	// the update.
	First, Revision int64
	Time            time.Time
	Op              config.PodOperation
	Source          string
	Pods            []*Pod
	// Before has, for each of Pods, the version before the update, or nil.
	Before []*Pod
	// Mirrors is whether Pods or Before have a mirror pod.
	Mirrors bool
	// StatusOnly is true if only the status from the runtime changed.
	StatusOnly bool
	// Event is set in a PLEG.
	Event *v1alpha1.Event
}

// after returns the part of the update after the revision.
func (u *Update) after(revision int64) *Update {
	if revision < u.First {
		return u
	}
	n := min(int(revision-u.First+1), len(u.Pods))
	rest := *u
	rest.First, rest.Pods, rest.Before = revision+1, u.Pods[n:], u.Before[n:]
	return &rest
}

// Once returns the update with each pod once. If a source has a UID several times, the update of
// the merge has all its pods, and the last one counts.
func (u *Update) Once() *Update {
	first, last := make(map[types.UID]int, len(u.Pods)), make(map[types.UID]int, len(u.Pods))
	for i, p := range u.Pods {
		uid := p.Object.UID
		if _, ok := first[uid]; !ok {
			first[uid] = i
		}
		last[uid] = i
	}
	if len(last) == len(u.Pods) {
		return u
	}
	once := *u
	once.Pods, once.Before = nil, nil
	for i, p := range u.Pods {
		if uid := p.Object.UID; last[uid] == i {
			once.Pods, once.Before = append(once.Pods, p), append(once.Before, u.Before[first[uid]])
		}
	}
	return &once
}

// Change is the change of a name or of a UID by a set.
type Change struct {
	// Revision is the change's own: no other change of the set has it. It is 0 for a UID.
	Revision int64
	// Before and After are the pods of the name or UID; nil for none. They have the same revision if only the owners changed.
	Before, After *Pod
}

// OwnersOnly reports whether only the owners changed.
func (c *Change) OwnersOnly() bool {
	return c.Before != nil && c.After != nil && c.Before.Revision == c.After.Revision
}

// Set is the changes by one set of a source, or one update of another kind. All of it
// becomes visible at once. It is immutable then.
type Set struct {
	Instance string
	// First is the revision of its first pod, Revision that of its last.
	First, Revision int64
	Time            time.Time
	Updates         []*Update
	// Names and UIDs are the changes of the pods by name and by UID, in the order of
	// revisions.
	Names, UIDs []Change
	// Objects are the changes of nodes and namespaces, in the order of revisions.
	Objects []ObjectChange
	// Sources are the changes of sources to store, except for their pods.
	Sources []Source
	// Bookmark is the state of the sources after the set. If Readied is true, subscribers get it,
	// and the set has no updates. The reason is one of these: every source has been seen or is known
	// now, a restored source has been seen, or a source was added or removed.
	Bookmark *Bookmark
	Readied  bool
	// Origin is the event from which the set follows; nil for none.
	Origin *Origin
	// Memo caches the frames of views, while the set is one of the newest.
	Memo

	// After is the table after the set, and before the one before it.
	After, before *Table
	// size is the memory of the versions that only the set holds, and of the nodes of the table before it.
	size int64
}

// Pods returns all pods after the set, in the order of BySource.
func (s *Set) Pods() []*Pod { return s.After.bySource() }

// nodes is the memory of the nodes of the table before the set that the table after it does not have.
func (s *Set) nodes() int64 {
	changed := 0
	for _, u := range s.Updates {
		if u.Op.IsConfig() || u.Op == config.OWNERS {
			changed += len(u.Pods)
		}
	}
	return int64(min(changed*pathMemory, s.before.pods.Len()*nodeMemory))
}

// count is what the set counts in the ring: its updates, or one if it has only objects, or
// only changes the sources.
func (s *Set) count() int {
	if len(s.Updates) == 0 && (len(s.Objects) > 0 || s.Readied) {
		return 1
	}
	return len(s.Updates)
}

// rest returns the part of the set after the revision.
func (s *Set) rest(revision int64) *Set {
	if revision < s.First {
		return s
	}
	rest := &Set{
		Instance: s.Instance, First: revision + 1, Revision: s.Revision, Time: s.Time, UIDs: s.UIDs,
		Bookmark: s.Bookmark, Readied: s.Readied, Origin: s.Origin, After: s.After,
	}
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
	n, _ = slices.BinarySearchFunc(s.Objects, revision+1, func(c ObjectChange, r int64) int { return int(c.Revision - r) })
	rest.Objects = s.Objects[n:]
	return rest
}
