package journal

import (
	"cmp"
	"slices"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

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
	pods := make([]*Pod, 0, len(j.names))
	for name, present := range j.names {
		if _, ok := past[name]; !ok {
			pods = append(pods, present)
		}
	}
	for _, pod := range past {
		if pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods, revision, nil
}

// At returns all pods as they were after a set, in the order of BySource. The error is a
// CompactedError if the set has left the ring.
func (j *Journal) At(revision int64) ([]*Pod, error) {
	pods, _, err := j.at(revision)
	return pods, err
}

// at is At. It also reports whether the set is the newest.
func (j *Journal) at(revision int64) (pods []*Pod, newest bool, err error) {
	j.mu.RLock()
	if err := j.goneLocked(revision); err != nil {
		j.mu.RUnlock()
		return nil, false, err
	}
	newest = revision == j.head
	past := make(map[podKey]*Pod)
	j.undoLocked(revision, func(s *Set) { s.undo(func(key podKey, before *Pod) { past[key] = before }) })
	pods = make([]*Pod, 0, len(j.state))
	for key, p := range j.state {
		if _, ok := past[key]; !ok {
			pods = append(pods, p)
		}
	}
	j.mu.RUnlock()
	for _, p := range past {
		if p != nil {
			pods = append(pods, p)
		}
	}
	sortPods(pods)
	return pods, newest, nil
}

// States has the state after each set, for a subscriber that reads one set after the other. It follows
// from the state after the set before: to undo, for each set, all sets after it costs the square of the ring.
// It belongs to one goroutine.
//
// It holds no pods, so that a slow subscriber keeps no old version in memory. As long as the ring has the
// sets after the last one, all pods of the state after it are in the ring or present.
type States struct {
	journal *Journal
	// revision is that of the last set; 0 if the state after it is not known.
	revision int64
	pods     []weak.Pointer[Pod]
}

// States returns the states for one subscriber.
func (j *Journal) States() *States { return &States{journal: j} }

// After returns the pods after a set, in the order of BySource. The error is a CompactedError if the set has
// left the ring.
func (s *States) After(set *Set) ([]*Pod, error) {
	if pods := s.pass(set); pods != nil {
		return pods, nil
	}
	pods, newest, err := s.journal.at(set.Revision)
	if err != nil || newest { // usually, the next set is a while away
		return pods, err
	}
	s.revision, s.pods = set.Revision, make([]weak.Pointer[Pod], len(pods))
	for i, p := range pods {
		s.pods[i] = weak.Make(p)
	}
	return pods, nil
}

// Pass takes a set after which the state is not needed.
func (s *States) Pass(set *Set) { s.pass(set) }

// Forget must be called if a set was neither in After nor in Pass.
func (s *States) Forget() { s.revision, s.pods = 0, nil }

// pass applies the set to the state, and returns the pods; nil if they are not known.
func (s *States) pass(set *Set) []*Pod {
	if s.revision == 0 {
		return nil
	}
	pods := make([]*Pod, len(s.pods), len(s.pods)+1)
	for i, kept := range s.pods {
		pods[i] = kept.Value()
	}
	known := !slices.Contains(pods, nil)
	if set.Revision > s.revision { // otherwise the subscriber gets the rest of its frames
		s.revision = set.Revision
		for _, u := range set.Updates {
			for i := 0; i < len(u.Pods) && known && u.Op.IsConfig(); i++ {
				pods, known = s.replace(pods, u, i)
			}
		}
	}
	if !known {
		s.Forget()
		return nil
	}
	return pods
}

// replace replaces the version before the update by that of the update, and reports whether the state had
// the version before.
func (s *States) replace(pods []*Pod, u *Update, i int) ([]*Pod, bool) {
	before, after := u.Before[i], u.Pods[i]
	if before != nil {
		at, found := slices.BinarySearchFunc(pods, before, comparePods)
		if !found {
			return nil, false
		}
		pods, s.pods = slices.Delete(pods, at, at+1), slices.Delete(s.pods, at, at+1)
	}
	if u.Op != config.REMOVE {
		at, found := slices.BinarySearchFunc(pods, after, comparePods)
		if found {
			return nil, false
		}
		pods, s.pods = slices.Insert(pods, at, after), slices.Insert(s.pods, at, weak.Make(after))
	}
	return pods, true
}

// undoLocked calls undo with each set that has an update after the revision, the newest
// first.
func (j *Journal) undoLocked(revision int64, undo func(*Set)) {
	for i := j.ring.len() - 1; i >= 0 && j.ring.at(i).Revision > revision; i-- {
		undo(j.ring.at(i))
	}
}

// undoNames puts into past the pods of the names before the set's changes after the
// revision; nil for none.
func (s *Set) undoNames(revision int64, past map[types.NamespacedName]*Pod) {
	for _, c := range slices.Backward(s.Names) {
		if c.Revision > revision {
			past[cmp.Or(c.Before, c.After).name()] = c.Before
		}
	}
}
