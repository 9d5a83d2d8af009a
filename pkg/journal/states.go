package journal

import (
	"slices"
	"weak"

	"github.com/podconfigd/podconfigd/pkg/config"
)

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
