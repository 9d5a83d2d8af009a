package journal

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
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
	pods := slices.Collect(maps.Values(j.state))
	state := State{Instance: j.instance, Revision: j.head, Pods: pods, Bookmark: j.bookmark}
	j.mu.RUnlock()
	sortPods(pods)
	return state
}

// ByUID returns the current pod of the UID, or nil.
func (j *Journal) ByUID(uid types.UID) *Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.uids[uid]
}

// ByName returns the current pod of the name, or nil.
func (j *Journal) ByName(name types.NamespacedName) *Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.names[name]
}

// MirrorPods returns the current mirror pods by name.
func (j *Journal) MirrorPods() map[types.NamespacedName]*v1.Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	mirrors := make(map[types.NamespacedName]*v1.Pod)
	for _, pod := range j.state {
		if config.IsMirrorPod(pod.Object) {
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
	defer j.mu.RUnlock()
	return Shown{
		Instance: j.instance, Revision: j.head,
		Names: slices.Collect(maps.Values(j.names)), UIDs: slices.Collect(maps.Values(j.uids)),
	}
}

// Named returns the pod of each name at a revision, by namespace and name, and the
// revision. 0 means the newest revision. The error is a CompactedError if the journal no
// longer has the revision.
func (j *Journal) Named(at int64) ([]*Pod, int64, error) {
	pods, revision, err := j.named(at)
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return config.ComparePods(a.Object, b.Object) })
	return pods, revision, nil
}

func (j *Journal) named(at int64) ([]*Pod, int64, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	revision := cmp.Or(at, j.head)
	if err := j.goneLocked(revision); err != nil {
		return nil, 0, err
	}
	past := make(map[types.NamespacedName]*Pod)
	j.undoLocked(revision, func(s *Set) { s.undoNames(revision, past) })
	return undone(j.names, past), revision, nil
}

// undone returns the pods of an earlier state. past has, for each key that has changed since then, the pod
// that it had; nil for none.
func undone[K comparable](present, past map[K]*Pod) []*Pod {
	pods := make([]*Pod, 0, len(present))
	for key, p := range present {
		if _, ok := past[key]; !ok {
			pods = append(pods, p)
		}
	}
	for _, p := range past {
		if p != nil {
			pods = append(pods, p)
		}
	}
	return pods
}

// At returns all pods as they were after a set, in the order of BySource. The error is a
// CompactedError if the set has left the ring.
func (j *Journal) At(revision int64) ([]*Pod, error) {
	pods, _, err := j.at(revision)
	return pods, err
}

// at returns the pods like At, and whether the set is the newest.
func (j *Journal) at(revision int64) (pods []*Pod, newest bool, err error) {
	j.mu.RLock()
	if err := j.goneLocked(revision); err != nil {
		j.mu.RUnlock()
		return nil, false, err
	}
	newest = revision == j.head
	past := make(map[podKey]*Pod)
	j.undoLocked(revision, func(s *Set) { s.undo(func(key podKey, before *Pod) { past[key] = before }) })
	pods = undone(j.state, past)
	j.mu.RUnlock()
	sortPods(pods)
	return pods, newest, nil
}

// undoLocked calls undo with each set that has an update after the revision, the newest
// first.
func (j *Journal) undoLocked(revision int64, undo func(*Set)) {
	for i := j.ring.len() - 1; i >= 0 && j.ring.at(i).Revision > revision; i-- {
		undo(j.ring.at(i))
	}
}

// undoNames undoes the set's changes of names after the revision: it puts into past the pod that
// each name had before; nil for none.
func (s *Set) undoNames(revision int64, past map[types.NamespacedName]*Pod) {
	for _, c := range slices.Backward(s.Names) {
		if c.Revision > revision {
			past[cmp.Or(c.Before, c.After).name()] = c.Before
		}
	}
}
