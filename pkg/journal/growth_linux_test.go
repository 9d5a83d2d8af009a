package journal

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// proportional limits the growth of the time of work, in relation to the growth of the time to sort. Proportional work
// stays below it on every machine. Quadratic work exceeds it.
const proportional = 2.5

// growsInProportion fails if the time of work grows faster than its input. prepare returns the work for n objects. The
// times for n and for 8n objects are compared with the times to sort as many objects. Both share one effect: with more
// objects, each one takes longer, because fewer of them are in the caches of the processor, and even fewer on a busy
// machine. Only the time of the processor counts, and the test fails only if every one of several attempts is too
// slow. The work must stay on its goroutine, because other goroutines and processes do not count.
func growsInProportion(tb testing.TB, n int, prepare func(n int) (work func())) {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	measure := func(n int) (work, sort time.Duration) {
		do, control := prepare(n), sorting(n)
		runtime.GC()
		began := threadTime(tb)
		do()
		done := threadTime(tb)
		control()
		return done - began, threadTime(tb) - done
	}
	var tries []string
	for range 5 {
		few, fewSorted := measure(n)
		for range 2 {
			work, sort := measure(n)
			few, fewSorted = min(few, work), min(fewSorted, sort)
		}
		many, manySorted := measure(8 * n)
		grows := float64(many) / float64(few) / (float64(manySorted) / float64(fewSorted))
		if grows <= proportional {
			return
		}
		tries = append(tries, fmt.Sprintf("%v and %v, sorted in %v and %v: %.1f", few, many, fewSorted, manySorted, grows))
	}
	tb.Errorf("from %d to %d, the work grows more than %.1f times as much as the time to sort: %q", n, 8*n, proportional, tries)
}

// sorting returns work that sorts n objects by their names. Each object is as large as a small pod.
func sorting(n int) (work func()) {
	type object struct {
		name string
		_    [1 << 10]byte
	}
	objects := make([]*object, n)
	for i, k := range rand.Perm(n) {
		objects[i] = &object{name: fmt.Sprint("pod", k)}
	}
	return func() {
		slices.SortFunc(objects, func(a, b *object) int { return cmp.Compare(a.name, b.name) })
	}
}

func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(now.Nano())
}
