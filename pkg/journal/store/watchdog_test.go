package store

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchdog(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(w *watchdog)
		late int
	}{
		{"it takes exactly as long", func(w *watchdog) { <-time.After(stall) }, 1},
		{"it ends before", func(w *watchdog) { <-time.After(stall - 1); w.end() }, 0},
		{"it begins again", func(w *watchdog) { <-time.After(stall - 1); w.begin(); <-time.After(stall - 1) }, 0},
		// The timer of a machine that stood still has run out when it goes on, however long that was.
		{"the machine stands still", func(w *watchdog) { w.part(); <-time.After(stall/2 - 1) }, 0},
		{"the machine stands still, and it hangs too", func(w *watchdog) { w.part(); <-time.After(stall) }, 1},
		{"it ends while a part ends", func(w *watchdog) { w.end(); w.part() }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := 0
				w := newWatchdog(func() { late++ })
				w.begin()
				test.do(w)
				synctest.Wait()
				if late != test.late {
					t.Errorf("late is called %d times, want %d", late, test.late)
				}
				w.end()
				<-time.After(2 * stall)
				if late != test.late {
					t.Errorf("after the end, late is called %d times", late)
				}
			})
		})
	}
}
