package journal

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
