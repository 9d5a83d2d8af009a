package journal

import (
	"cmp"
	"slices"
	"weak"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// States returns the state after each set, for a subscriber that reads one set after the other. It
// makes each state from the state before: to undo all later sets for each set costs the square of the
// ring. It belongs to one goroutine.
//
// It holds no pods, so a slow subscriber keeps no old version in memory. While the ring has all sets
// after the last one that was read, each pod of the state is current or in the ring.
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
	if s.pass(set) {
		if pods := s.read(); pods != nil {
			return pods, nil
		}
	}
	pods, newest, err := s.journal.at(set.Revision)
	if err != nil || newest { // usually, the next set is a while away
		s.Forget()
		return pods, err
	}
	s.revision, s.pods = set.Revision, make([]weak.Pointer[Pod], len(pods))
	for i, p := range pods {
		s.pods[i] = weak.Make(p)
	}
	return pods, nil
}

// Pass takes a set without returning the state after it. Call After or Pass with each set. Both may
// be called with the same set.
func (s *States) Pass(set *Set) { s.pass(set) }

// Forget drops the state. Call it if the next set does not follow the last one.
func (s *States) Forget() { s.revision, s.pods = 0, nil }

// read returns the pods; nil if one was freed.
func (s *States) read() []*Pod {
	pods := make([]*Pod, len(s.pods), len(s.pods)+1) // never nil
	for i, kept := range s.pods {
		if pods[i] = kept.Value(); pods[i] == nil {
			return nil
		}
	}
	return pods
}

// pass applies the set to the state, and reports whether the state after it is known.
func (s *States) pass(set *Set) bool {
	if s.revision == 0 {
		return false
	}
	if set.Revision > s.revision { // otherwise the subscriber gets the rest of its frames
		s.revision = set.Revision
		if s.pods = s.applied(set.versions()); s.pods == nil {
			s.Forget()
		}
	}
	return s.revision != 0
}

// versions returns the versions that the set adds, with true, and the earlier versions that it
// replaces or removes, with false.
func (s *Set) versions() map[*Pod]bool {
	versions := make(map[*Pod]bool)
	for _, u := range s.Updates {
		for i := 0; i < len(u.Pods) && u.Op.IsConfig(); i++ {
			before, after := u.Before[i], u.Pods[i]
			if before == after && u.Op != config.REMOVE {
				continue
			}
			if versions[before] {
				delete(versions, before) // the set brought it
			} else if before != nil {
				versions[before] = false
			}
			if u.Op != config.REMOVE {
				versions[after] = true
			}
		}
	}
	return versions
}

// applied returns the state after the versions of a set were added and removed. It returns nil if a
// version to remove is not in the state. It copies the state: to delete and to insert each version in
// place costs the square of a set that has all pods.
func (s *States) applied(versions map[*Pod]bool) []weak.Pointer[Pod] {
	next, edits := slices.Clone(s.pods), []edit(nil)
	for p, comes := range versions {
		if !comes {
			continue
		}
		at, there, ok := s.find(p)
		if stays, changed := versions[there]; !ok || there != nil && (stays || !changed) {
			return nil
		}
		if there == nil {
			edits = append(edits, edit{at, p})
			continue
		}
		next[at] = weak.Make(p)
		delete(versions, there)
	}
	for p, comes := range versions {
		if comes {
			continue
		}
		at, there, ok := s.find(p)
		if !ok || there != p {
			return nil
		}
		edits = append(edits, edit{at, nil})
	}
	return edited(next, edits)
}

// find returns the index at which the pod is or would be, and the version that is there; nil for
// none. ok is false if a pod of the state was freed.
func (s *States) find(p *Pod) (at int, there *Pod, ok bool) {
	ok = true
	at, found := slices.BinarySearchFunc(s.pods, p, func(kept weak.Pointer[Pod], p *Pod) int {
		if there = kept.Value(); there == nil {
			ok = false
			return 0
		}
		return comparePods(there, p)
	})
	if !found {
		return at, nil, ok
	}
	there = s.pods[at].Value()
	return at, there, ok && there != nil
}

// edit inserts a pod before the index. If the pod is nil, it deletes the pod at the index.
type edit struct {
	at  int
	pod *Pod
}

// edited returns the pods with the edits.
func edited(pods []weak.Pointer[Pod], edits []edit) []weak.Pointer[Pod] {
	if len(edits) == 0 {
		return pods
	}
	slices.SortFunc(edits, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.pod == nil: // comes last
			return 1
		case b.pod == nil:
			return -1
		}
		return comparePods(a.pod, b.pod)
	})
	next, from := make([]weak.Pointer[Pod], 0, len(pods)+len(edits)), 0
	for _, e := range edits {
		next = append(next, pods[from:e.at]...)
		if from = e.at; e.pod == nil {
			from++
		} else {
			next = append(next, weak.Make(e.pod))
		}
	}
	return append(next, pods[from:]...)
}
