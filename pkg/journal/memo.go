package journal

import (
	"sync"
	"sync/atomic"
)

// Memo caches values that are derived from an immutable value. The first subscriber that
// needs one computes it, and all share it. The zero value is empty. It is safe for
// concurrent use.
type Memo struct{ first atomic.Pointer[derived] }

// maxDerived is the maximum number of values in a Memo. Clients choose the selections,
// and so the number of values. Further values are computed each time.
const maxDerived = 16

// derived is one derived value. They form a list, because there are few.
type derived struct {
	key  any
	next *derived

	mu    sync.Mutex
	done  atomic.Bool // value and err are set
	value any
	err   error
}

// Once returns the result of the first call of compute for the key. Each key has one type
// of value. A key that is a pointer or a [unique.Handle] costs no allocation.
func Once[T any](m *Memo, key any, compute func() (T, error)) (T, error) {
	d := m.find(key)
	if !d.done.Load() {
		fill(d, compute)
	}
	value, _ := d.value.(T) // each key has one type
	return value, d.err
}

// fill computes the value. A sync.Once would make each call of Once allocate a function.
func fill[T any](d *derived, compute func() (T, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.done.Load() {
		d.value, d.err = compute()
		d.done.Store(true)
	}
}

func (m *Memo) find(key any) *derived {
	var added *derived
	for {
		first, length := m.first.Load(), 0
		for d := first; d != nil; d = d.next {
			if d.key == key {
				return d
			}
			length++
		}
		if added == nil {
			added = &derived{key: key}
		}
		if first == forgotten || length >= maxDerived {
			return added // only for this caller
		}
		added.next = first
		if m.first.CompareAndSwap(first, added) {
			return added
		}
	}
}

// forgotten is the list of a Memo that no longer caches.
var forgotten = new(derived)

// forget removes all cached values and stops caching.
func (m *Memo) forget() { m.first.Store(forgotten) }
