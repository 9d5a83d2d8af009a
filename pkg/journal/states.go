package journal

import (
	"slices"
	"weak"
)

// States returns the state after each set, for a subscriber that reads one set after the other. It
// makes each state from the state before. Undoing all later sets for each set would cost the square
// of the ring. It belongs to one goroutine.
//
// It holds no pods, so a slow subscriber keeps no old version in memory.
type States struct {
	journal *Journal
	// revision is that of the last set; 0 if the state after it is not known.
	revision int64
	pods     weakPods
}

// States returns the states for one subscriber.
func (j *Journal) States() *States { return &States{journal: j} }

// After returns the pods after a set, in the order of BySource. The error is a CompactedError if the set has
// left the ring.
func (s *States) After(set *Set) ([]*Pod, error) {
	if s.pass(set) {
		if pods := s.pods.pods(); pods != nil {
			return pods, nil
		}
	}
	pods, newest, err := s.journal.at(set.Revision)
	if err != nil || newest { // usually, the next set is a while away
		s.Forget()
		return pods, err
	}
	s.revision, s.pods = set.Revision, weaken(pods)
	return pods, nil
}

// Pass takes a set without returning the state after it. Call After or Pass with each set. Both may
// be called with the same set.
func (s *States) Pass(set *Set) { s.pass(set) }

// Forget drops the state. Call it if the next set does not follow the last one.
func (s *States) Forget() { s.revision, s.pods = 0, nil }

// pass applies the set to the state, and reports whether the state after it is known.
func (s *States) pass(set *Set) bool {
	if s.revision != 0 && set.Revision > s.revision { // otherwise the subscriber gets the rest of its frames
		s.follow(set)
	}
	return s.revision != 0
}

// follow applies the next set to the state. It copies the state. Deleting and inserting each pod in
// place would cost the square of a set that has all pods.
func (s *States) follow(set *Set) {
	s.revision = set.Revision
	changed := make(map[podKey]*Pod)
	var places []*Pod // for each place in the order that the set may change, a pod that is there before or after
	set.redo(func(key podKey, before, after *Pod) {
		changed[key] = after
		if before != nil {
			places = append(places, before)
		}
		if after != nil && (before == nil || comparePods(before, after) != 0) {
			places = append(places, after)
		}
	})
	sortPods(places)
	compare := func(kept weak.Pointer[Pod], p *Pod) int {
		if there := kept.Value(); there != nil {
			return comparePods(there, p)
		}
		s.revision = 0 // it was freed
		return 0
	}
	next, rest := make(weakPods, 0, len(s.pods)+len(changed)), s.pods
	for _, p := range places {
		near := 1 // a set that has all pods has the next one too
		for near < len(rest) && compare(rest[near-1], p) < 0 {
			near *= 2
		}
		at, found := slices.BinarySearchFunc(rest[:min(near, len(rest))], p, compare)
		next, rest = append(next, rest[:at]...), rest[at:]
		if found {
			rest = rest[1:]
		}
		if after := changed[p.key()]; after != nil && comparePods(after, p) == 0 {
			next = append(next, weak.Make(after))
			delete(changed, p.key()) // places can have it again
		}
	}
	next = append(next, rest...)
	s.pods = next
}
