package journal

import (
	"cmp"
	"maps"
	"slices"
	"weak"
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
	pods    weakPods
}

// Snapshot returns the current state.
func (j *Journal) Snapshot(order Order) *Snapshot {
	var pods []*Pod
	j.mu.RLock()
	s := &Snapshot{Instance: j.instance, Revision: j.head, Bookmark: j.bookmark, Orphans: j.orphans, journal: j}
	sorted := j.orders[order].Load()
	if sorted == nil || sorted.revision != j.head {
		sorted, pods = nil, j.podsLocked(order)
	}
	j.mu.RUnlock()
	if sorted == nil {
		slices.SortFunc(pods, order.compare)
		sorted = &sortedPods{s.Revision, weaken(pods)}
		j.orders[order].Store(sorted)
	}
	s.Len, s.pods = len(sorted.pods), sorted.pods
	return s
}

// podsLocked returns the current pods that an order selects.
func (j *Journal) podsLocked(order Order) []*Pod {
	switch order {
	case ByName:
		return slices.Collect(maps.Values(j.names))
	case ByUID:
		return slices.Collect(maps.Values(j.uids))
	}
	return slices.Collect(maps.Values(j.state))
}

func (o Order) compare(a, b *Pod) int {
	switch o {
	case ByName:
		return cmp.Compare(a.Revision, b.Revision)
	case ByUID:
		return cmp.Compare(a.Object.UID, b.Object.UID)
	}
	return comparePods(a, b)
}

// sortedPods are the pods at a revision. All subscribers that start at this revision share them.
type sortedPods struct {
	revision int64
	pods     weakPods
}

// Pods returns some of the pods, as they were at the snapshot's revision. The error is a
// CompactedError if the journal no longer has them.
func (s *Snapshot) Pods(from, to int) ([]*Pod, error) {
	s.journal.mu.RLock()
	defer s.journal.mu.RUnlock()
	if err := s.journal.behindLocked(s.Revision); err != nil {
		return nil, err
	}
	return s.pods[from:to].pods(), nil
}

// weakPods are the pods of a state at a revision. They keep no pod in memory. While the ring has all sets after
// the revision, each pod is current or in the ring.
type weakPods []weak.Pointer[Pod]

func weaken(pods []*Pod) weakPods {
	weakened := make(weakPods, len(pods))
	for i, p := range pods {
		weakened[i] = weak.Make(p)
	}
	return weakened
}

// pods returns the pods; nil if one was freed.
func (w weakPods) pods() []*Pod {
	pods := make([]*Pod, len(w), len(w)+1) // never nil
	for i, kept := range w {
		if pods[i] = kept.Value(); pods[i] == nil {
			return nil
		}
	}
	return pods
}
