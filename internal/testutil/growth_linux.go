package testutil

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// proportional is more than the growth of work that is proportional, on any machine, and less than that of a square.
const proportional = 24

// GrowsInProportion fails if work takes more than in proportion to its input: eight times the input takes about eight
// times the processor time, and 64 times if it is the square. prepare returns the work for n. What a busy machine
// adds is left out: the work must be too slow each of several times. The work must stay on its goroutine: other
// goroutines and processes do not count.
func GrowsInProportion(tb testing.TB, n int, prepare func(n int) (work func())) {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	measure := func(n int) time.Duration {
		work := prepare(n)
		runtime.GC()
		began := threadTime(tb)
		work()
		return threadTime(tb) - began
	}
	var few, many time.Duration
	for range 5 {
		few = min(measure(n), measure(n), measure(n))
		if many = measure(8 * n); many <= proportional*few {
			return
		}
	}
	tb.Errorf("%v for %d, %v for %d: eight times as many take %.0f times as long", few, n, many, 8*n, float64(many)/float64(few))
}

func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(now.Nano())
}
