package store

import (
	"math"
	"sync/atomic"
	"time"
)

// stallParts is into how many parts a watchdog divides stall.
const stallParts = 4

// watchdog calls late if something takes longer than stall. It counts the parts one after the other: a
// machine that stands still for longer than stall takes one of them, and what it interrupted goes on during the
// others.
type watchdog struct {
	late  func()
	left  atomic.Int32
	timer *time.Timer
}

func newWatchdog(late func()) *watchdog {
	w := &watchdog{late: late}
	w.timer = time.AfterFunc(math.MaxInt64, w.part)
	return w
}

// begin begins to count, again if it counts.
func (w *watchdog) begin() {
	w.left.Store(stallParts)
	w.timer.Reset(stall / stallParts)
}

// part counts a part that has passed.
func (w *watchdog) part() {
	switch left := w.left.Add(-1); {
	case left > 0:
		w.timer.Reset(stall / stallParts)
	case left == 0:
		w.late()
	}
}

func (w *watchdog) end() {
	w.left.Store(0)
	w.timer.Stop()
}
