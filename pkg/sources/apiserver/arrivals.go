package apiserver

import (
	"sync"
	"time"
)

// arrivals has the times at which answers and events arrived, until the Reflector has put them
// into the store.
type arrivals struct {
	mu sync.Mutex
	// list is the arrival of the newest complete list. waiting are the objects of events, the
	// oldest first. The Reflector takes them in this order, one at a time.
	list    time.Time
	waiting []arrival
	// began is when the newest event arrived.
	began time.Time
}

type arrival struct {
	object any
	at     time.Time
}

const (
	// immediate is the longest time in which an event is received that was already there.
	immediate = 50 * time.Microsecond
	// maxArrivals is more than there are. A watch that ends may leave one.
	maxArrivals = 16
)

// received returns when an event came that is received now, after waiting since idle. If it was
// already there, it came while the one before was handed on, at its start at the earliest.
func (a *arrivals) received(idle time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := time.Now()
	if at.Sub(idle) < immediate && !a.began.IsZero() {
		at, a.began = a.began, at
		return at
	}
	a.began = at
	return at
}

// listed records the arrival of a complete list.
func (a *arrivals) listed(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.waiting = at, nil
}

// event records the arrival of an object.
func (a *arrivals) event(object any, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == maxArrivals {
		a.waiting = a.waiting[1:]
	}
	a.waiting = append(a.waiting, arrival{object, at})
}

// ofList returns the arrival of the newest list.
func (a *arrivals) ofList() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list
}

// of returns the arrival of an object, and forgets it and those before; zero if it is unknown.
func (a *arrivals) of(object any) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, w := range a.waiting {
		if w.object == object {
			a.waiting = append(a.waiting[:0], a.waiting[i+1:]...)
			return w.at
		}
	}
	return time.Time{}
}
