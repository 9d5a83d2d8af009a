package journal

import (
	"sync"
	"sync/atomic"
)

// Memo keeps what is derived from a value that does not change: it is computed once,
// by the first subscriber that needs it, and shared. Its zero value is empty. It is
// safe for concurrent use.
type Memo struct{ first atomic.Pointer[derived] }

// maxDerived is how many values a Memo keeps: clients choose the selections, so they
// choose how many there are. What is beyond is computed each time.
const maxDerived = 16

// derived is one derived value. They form a list: there are few of them.
type derived struct {
	key   any
	next  *derived
	once  sync.Once
	value any
	err   error
}

// Once returns what compute returned for the key when it was first called. The type of
// a value is fixed by its key.
func Once[T any](m *Memo, key any, compute func() (T, error)) (T, error) {
	d := m.find(key)
	d.once.Do(func() { d.value, d.err = compute() })
	value, _ := d.value.(T) // it is of no other type
	return value, d.err
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
			return added // for this caller alone
		}
		added.next = first
		if m.first.CompareAndSwap(first, added) {
			return added
		}
	}
}

// forgotten is the list of a Memo that keeps nothing any more.
var forgotten = new(derived)

// forget lets go of all derived values, for good: they are computed each time that they
// are needed.
func (m *Memo) forget() { m.first.Store(forgotten) }
