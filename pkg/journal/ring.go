package journal

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
