package apiserver

import (
	"testing"
	"testing/synctest"
	"time"
)

// An event has the time at which it arrived, also if the next one arrives before it is stored. One
// that waited while the one before was handed on counts from there.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a arrivals
		first, second, third := new(int), new(int), new(int)
		start := time.Now()
		idle := start
		<-time.After(time.Second)
		a.event(first, a.received(idle))
		<-time.After(time.Second) // handed on
		a.event(second, a.received(time.Now()))
		if at := a.of(first); at.Sub(start) != time.Second {
			t.Errorf("the first arrived after %v", at.Sub(start))
		}
		idle = time.Now()
		<-time.After(time.Second)
		a.event(third, a.received(idle))
		if at := a.of(third); at.Sub(start) != 3*time.Second {
			t.Errorf("the third arrived after %v", at.Sub(start))
		}
		if at := a.of(second); !at.IsZero() {
			t.Errorf("an event before one that was stored is kept: %v", at)
		}
		a.listed(time.Now())
		if at := a.ofList(); at.Sub(start) != 3*time.Second {
			t.Errorf("the list arrived after %v", at.Sub(start))
		}
		for range 2 * maxArrivals {
			a.event(new(int), time.Now())
		}
		if n := len(a.waiting); n > maxArrivals {
			t.Errorf("%d events are kept", n)
		}
	})
}
