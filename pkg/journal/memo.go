package journal

import (
	"sync"
	"sync/atomic"
)

// Memo keeps what is derived from a value that does not change: it is computed once,
// by the first subscriber that needs it, and shared. Its zero value is empty. It is
// safe for concurrent use.
type Memo struct{ first atomic.Pointer[derived] }

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
		first := m.first.Load()
		for d := first; d != nil; d = d.next {
			if d.key == key {
				return d
			}
		}
		if added == nil {
			added = &derived{key: key}
		}
		added.next = first
		if m.first.CompareAndSwap(first, added) {
			return added
		}
	}
}

// forget lets go of all derived values. They are computed again if they are needed.
func (m *Memo) forget() { m.first.Store(nil) }
