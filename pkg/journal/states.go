package journal

import "slices"

// States returns the state after each set, for a subscriber that reads one set after the other. It
// makes each state from the state before: to undo all later sets for each set costs the square of the
// ring. It belongs to one goroutine.
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

// follow applies the next set to the state.
func (s *States) follow(set *Set) {
	changed := make(map[podKey]*Pod)
	set.redo(func(key podKey, after *Pod) { changed[key] = after })
	if s.revision = set.Revision; len(changed) == 0 {
		return
	}
	pods := s.pods.pods()
	if pods == nil { // one was freed
		s.Forget()
		return
	}
	pods = slices.DeleteFunc(pods, func(p *Pod) bool {
		_, ok := changed[p.key()]
		return ok
	})
	for _, after := range changed {
		if after != nil {
			pods = append(pods, after)
		}
	}
	sortPods(pods)
	s.pods = weaken(pods)
}
