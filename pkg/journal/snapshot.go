package journal

import (
	"cmp"
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
	j.mu.RLock()
	instance, present := j.instance, j.table
	j.mu.RUnlock()
	sorted := j.orders[order].Load()
	if sorted == nil || sorted.revision != present.revision {
		sorted = &sortedPods{present.revision, weaken(order.selectPods(present))}
		j.orders[order].Store(sorted)
	}
	return &Snapshot{
		Instance: instance, Revision: present.revision, Bookmark: present.bookmark, Orphans: present.orphans,
		Len: len(sorted.pods), journal: j, pods: sorted.pods,
	}
}

// selectPods returns the pods of a table that the order selects.
func (o Order) selectPods(t *Table) []*Pod {
	switch o {
	case ByName:
		pods := t.byName()
		slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.Revision, b.Revision) })
		return pods
	case ByUID:
		return t.byUID()
	}
	return t.bySource()
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
	pods := make([]*Pod, to-from)
	for i, kept := range s.pods[from:to] {
		pods[i] = kept.Value()
	}
	return pods, nil
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
