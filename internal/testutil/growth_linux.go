package testutil

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Growth returns how many times as much processor time work takes for eight times as much input: about 8 if it is
// proportional, 64 if it is its square. prepare returns the work for n. The work must stay on its goroutine: other
// goroutines and processes do not count.
func Growth(tb testing.TB, n int, prepare func(n int) (work func())) float64 {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := func(n int) (least time.Duration) {
		for range 3 {
			work := prepare(n)
			runtime.GC()
			began := threadTime(tb)
			work()
			if took := threadTime(tb) - began; least == 0 || took < least {
				least = took
			}
		}
		return least
	}
	few, many := least(n), least(8*n)
	tb.Logf("%v for %d, %v for %d", few, n, many, 8*n)
	return float64(many) / float64(few)
}

// Proportional is more than Growth of work that is proportional, on any machine, and less than that of a square.
const Proportional = 28

func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(now.Nano())
}
