package journal

import (
	"slices"
	"time"
)

// ring is a queue with access by index, from the oldest element on.
type ring[T any] struct {
	slots []T
	start int
	count int
}

const minRing = 64

// push appends an element.
func (r *ring[T]) push(v T) {
	if r.count == len(r.slots) {
		r.grow(max(minRing, 2*len(r.slots)))
	}
	r.slots[(r.start+r.count)%len(r.slots)] = v
	r.count++
}

// pop removes and returns the oldest element. The ring must not be empty.
func (r *ring[T]) pop() T {
	var zero T
	v := r.slots[r.start]
	r.slots[r.start] = zero
	r.start = (r.start + 1) % len(r.slots)
	r.count--
	return v
}

// at returns the i-th oldest element.
func (r *ring[T]) at(i int) T { return r.slots[(r.start+i)%len(r.slots)] }

func (r *ring[T]) len() int { return r.count }

func (r *ring[T]) grow(size int) {
	slots := make([]T, size)
	for i := range r.count {
		slots[i] = r.at(i)
	}
	r.slots, r.start = slots, 0
}

// memoized is the number of newest sets that keep the frames of views.
const memoized = 64

func (j *Journal) pushLocked(set *Set) {
	j.ring.push(set)
	j.updates += set.count()
	j.bytes += set.size
	j.shrinkLocked()
	if n := j.ring.len(); n > memoized {
		j.ring.at(n - 1 - memoized).forget()
	}
}

// shrinkLocked removes the oldest sets beyond the limits. The newest set stays, and if it has only
// the bookmark, the set before it too.
func (j *Journal) shrinkLocked() {
	keep := 1
	if n := j.ring.len(); n > 0 && j.ring.at(n-1).Readied {
		keep = 2
	}
	for j.ring.len() > keep && (j.updates > j.maxUpdates || j.bytes > j.maxBytes) {
		j.popLocked()
	}
}

func (j *Journal) popLocked() {
	set := j.ring.pop()
	j.updates -= set.count()
	j.bytes -= set.size
	j.compacted = set.Revision
	j.gaps = slices.DeleteFunc(j.gaps, func(g gap) bool { return g.before <= j.compacted })
}

// clearLocked empties the ring.
func (j *Journal) clearLocked() {
	for j.ring.len() > 0 {
		j.popLocked()
	}
}

// SetLimits changes Options.MaxUpdates and Options.MaxBytes. Sets beyond the new limits leave
// the ring at once.
func (j *Journal) SetLimits(maxUpdates int, maxBytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.maxUpdates, j.maxBytes = maxUpdates, maxBytes
	j.shrinkLocked()
}

// trim removes the newest set if it alone is too large and is old enough.
func (j *Journal) trim(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.ring.len(); n > 0 && j.bytes > j.maxBytes && now.Sub(j.ring.at(n-1).Time) >= oversized {
		j.clearLocked()
	}
}
