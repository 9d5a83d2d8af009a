package journal

import (
	"cmp"
	"iter"
	"slices"
	"weak"

	v1 "k8s.io/api/core/v1"
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

// State is the current state.
type State struct {
	Instance string
	Revision int64
	// Pods are by source, namespace and name.
	Pods     []*Pod
	Bookmark *Bookmark
}

// State returns the current state.
func (j *Journal) State() State {
	j.mu.RLock()
	instance, present := j.instance, j.table
	j.mu.RUnlock()
	return State{Instance: instance, Revision: present.revision, Pods: present.bySource(), Bookmark: present.bookmark}
}

// Sources returns the sources that have been seen, also before a restart, by name.
func (j *Journal) Sources() map[string]Source { return j.present().sources }

// ByUID returns the current pod of the UID, or nil.
func (j *Journal) ByUID(uid types.UID) *Pod { return j.present().withUID(uid) }

// ByName returns the current pod of the name, or nil.
func (j *Journal) ByName(name types.NamespacedName) *Pod { return j.present().withName(name) }

// InNamespace has the current pod of each name in a namespace.
func (j *Journal) InNamespace(namespace string) iter.Seq[*Pod] {
	return j.present().inNamespace(namespace)
}

// MirrorPods returns the current mirror pods by name.
func (j *Journal) MirrorPods() map[types.NamespacedName]*v1.Pod {
	mirrors := make(map[types.NamespacedName]*v1.Pod)
	for pod := range j.present().all() {
		if pod.rank == mirrorRank {
			mirrors[pod.name()] = pod.Object
		}
	}
	return mirrors
}

// Shown is the current pod of each name and of each UID, in no order. Set.Names and Set.UIDs have
// their changes.
type Shown struct {
	Instance    string
	Revision    int64
	Names, UIDs []*Pod
}

// Shown returns the current pod of each name and of each UID.
func (j *Journal) Shown() Shown {
	j.mu.RLock()
	instance, present := j.instance, j.table
	j.mu.RUnlock()
	return Shown{Instance: instance, Revision: present.revision, Names: present.byName(), UIDs: present.byUID()}
}

// Named returns the pod of each name at a revision, by namespace and name, and the
// revision. 0 means the newest revision. The error is a CompactedError if the journal no
// longer has the revision.
func (j *Journal) Named(at int64) ([]*Pod, int64, error) {
	p, err := j.past(at)
	switch {
	case err != nil:
		return nil, 0, err
	case p.within != nil:
		return p.namedWithin(p.within, p.revision), p.revision, nil
	}
	return p.byName(), p.revision, nil
}

// past is a table at a revision. If the revision is within a set, the table is that before the set.
type past struct {
	*Table

	within   *Set
	revision int64
}

// past returns the table at a revision; 0 means the newest revision.
func (j *Journal) past(at int64) (past, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	revision := cmp.Or(at, j.table.revision)
	if err := j.goneLocked(revision); err != nil {
		return past{}, err
	}
	i := j.searchLocked(revision)
	if i == j.ring.len() {
		return past{j.table, nil, revision}, nil
	}
	set := j.ring.at(i)
	if revision < set.First {
		return past{set.before, nil, revision}, nil
	}
	return past{set.before, set, revision}, nil
}
