package journal

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"
)

// Order is the order of the pods of a snapshot. It also selects them: the snapshot has one pod for
// each source and UID, for each name, or for each UID.
type Order int

// The orders.
const (
	// BySource has all pods, by source, namespace and name.
	BySource Order = iota
	// ByName has the pod of each name, by revision.
	ByName
	// ByUID has the pod of each UID, by UID.
	ByUID
	orderCount
)

// Snapshot is the state at one revision. It is read piece by piece and holds no pods. So
// a slow subscriber keeps no old version of a pod in memory. It can't be read after the
// revision has left the ring.
type Snapshot struct {
	Instance string
	Revision int64
	Bookmark *Bookmark
	// Orphans are the pods of the newest HOUSEKEEPING; nil before the first.
	Orphans []*Pod
	// Len is the number of pods.
	Len int

	journal *Journal
	read    func(from, to int) []*Pod
}

// Snapshot returns the current state.
func (j *Journal) Snapshot(order Order) *Snapshot {
	switch order {
	case ByName:
		return snapshot(j, order, func() []*Pod { return slices.Collect(maps.Values(j.names)) },
			func(a, b *Pod) int { return cmp.Compare(a.Revision, b.Revision) }, (*Pod).name, func(name types.NamespacedName) *Pod { return j.names[name] },
			func(s *Set, past map[types.NamespacedName]*Pod) { s.undoNames(0, past) })
	case ByUID:
		return snapshot(j, order, func() []*Pod { return slices.Collect(maps.Values(j.uids)) },
			func(a, b *Pod) int { return cmp.Compare(a.Object.UID, b.Object.UID) }, (*Pod).uid, func(uid types.UID) *Pod { return j.uids[uid] },
			func(s *Set, past map[types.UID]*Pod) {
				for _, c := range slices.Backward(s.UIDs) {
					past[cmp.Or(c.Before, c.After).Object.UID] = c.Before
				}
			})
	}
	return snapshot(j, order, func() []*Pod { return slices.Collect(maps.Values(j.state)) }, comparePods, (*Pod).key, func(key podKey) *Pod { return j.state[key] },
		func(s *Set, past map[podKey]*Pod) { s.undo(func(key podKey, before *Pod) { past[key] = before }) })
}

// sorted is the order of the keys at a revision.
type sorted[K comparable] struct {
	revision int64
	keys     []K

	// mu guards the fields below. It is locked after Journal.mu.
	mu sync.Mutex
	// past has, for each key that changed after the revision and up to undone, the version at the
	// revision. It is kept because to undo the sets again for each piece costs the square of a set
	// that has all pods. The ring holds these pods, and past does not.
	past   map[K]weak.Pointer[Pod]
	undone int64
}

// undoLocked undoes the sets that came since the last call. The function undo puts into past the pods
// that the keys had before a set.
func (o *sorted[K]) undoLocked(j *Journal, undo func(s *Set, past map[K]*Pod)) {
	if o.undone == j.head {
		return
	}
	past := make(map[K]*Pod)
	j.undoLocked(max(o.revision, o.undone), func(set *Set) { undo(set, past) })
	if o.past == nil {
		o.past = make(map[K]weak.Pointer[Pod], len(past))
	}
	for key, pod := range past {
		if _, earlier := o.past[key]; !earlier {
			o.past[key] = weak.Make(pod)
		}
	}
	o.undone = j.head
}

// snapshot makes a snapshot. It sorts the keys outside of the lock, once for all
// subscribers that start at the same revision. present returns the current pod of a key.
// undo puts into past the pods of the keys before a set.
func snapshot[K comparable](
	j *Journal, order Order, all func() []*Pod, compare func(a, b *Pod) int, keyOf func(*Pod) K,
	present func(K) *Pod, undo func(s *Set, past map[K]*Pod),
) *Snapshot {
	var found *sorted[K]
	if last := j.orders[order].Load(); last != nil {
		found, _ = (*last).(*sorted[K]) // each order has one type
	}
	var pods []*Pod
	j.mu.RLock()
	s := &Snapshot{Instance: j.instance, Revision: j.head, Bookmark: j.bookmark, Orphans: j.orphans, journal: j}
	if found == nil || found.revision != j.head {
		found, pods = nil, all()
	}
	j.mu.RUnlock()
	if found == nil {
		slices.SortFunc(pods, compare)
		found = &sorted[K]{revision: s.Revision, keys: make([]K, len(pods))}
		for i, p := range pods {
			found.keys[i] = keyOf(p)
		}
		next := any(found)
		j.orders[order].Store(&next)
	}
	s.Len = len(found.keys)
	s.read = func(from, to int) []*Pod {
		found.mu.Lock()
		defer found.mu.Unlock()
		found.undoLocked(j, undo)
		pods := make([]*Pod, to-from)
		for i, key := range found.keys[from:to] {
			if past, ok := found.past[key]; ok {
				pods[i] = past.Value()
			} else {
				pods[i] = present(key)
			}
		}
		return pods
	}
	return s
}

// Pods returns some of the pods, as they were at the snapshot's revision. The error is a
// CompactedError if the journal no longer has them.
func (s *Snapshot) Pods(from, to int) ([]*Pod, error) {
	s.journal.mu.RLock()
	defer s.journal.mu.RUnlock()
	if err := s.journal.behindLocked(s.Revision); err != nil {
		return nil, err
	}
	return s.read(from, to), nil
}
