package pleg

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

// emitted checks that the events of each container come once and in order, and returns
// them by container.
func emitted(t *testing.T, events []*PodLifecycleEvent) map[string][]PodLifeCycleEventType {
	t.Helper()
	order := []PodLifeCycleEventType{ContainerChanged, ContainerStarted, ContainerDied, ContainerRemoved}
	by := make(map[string][]PodLifeCycleEventType)
	for _, e := range events {
		if e.Type == PodSync {
			continue
		}
		before := by[e.ContainerID]
		if n := len(before); n > 0 && slices.Index(order, before[n-1]) >= slices.Index(order, e.Type) {
			t.Errorf("%s was emitted for %s after %v", e.Type, e.ContainerID, before)
		}
		if e.ExitCode != nil && int(*e.ExitCode) != len(e.ContainerID) {
			t.Errorf("%s is said to have exited with %d", e.ContainerID, *e.ExitCode)
		}
		by[e.ContainerID] = append(before, e.Type)
	}
	return by
}

// Containers come and go at random times. Answers and events are delayed by up to several
// periods. The stream of events breaks and returns, with or without the missed events. Some
// events are dropped because the receiver is slow.
// Every event is emitted at most once and in order. In the end, the events match the
// runtime, whether events or lists come last.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(60) { // each combination of what randomLives derives from the seed, except for slow receivers
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLives(t, seed) })
		})
	}
}

func randomLives(t *testing.T, seed uint64) {
	t.Helper()
	m := newModel(seed)
	random := newModel(seed + 1<<32).rand
	m.slow = []time.Duration{time.Millisecond, 300 * time.Millisecond, 3 * time.Second}[seed%3]
	m.noEvents, m.keeps, m.late = seed%4 == 0, seed%2 == 0, seed%5 == 0
	r := read(t, Options{Runtime: m})
	if seed%7 == 0 {
		r.Generator.mu.Lock()
		r.most = 1
		r.Generator.mu.Unlock()
		r.mu.Lock()
		r.pause = 200 * time.Millisecond
		r.mu.Unlock()
	}
	followers := []*follower{follow(r.Generator)}
	final := make(map[string]State)
	var alive []string
	for i := range 200 {
		if i%50 == 0 {
			followers = append(followers, follow(r.Generator))
		}
		pass(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		if random.IntN(20) == 0 {
			m.breakStream()
		}
		if len(alive) == 0 || random.IntN(3) == 0 {
			id := fmt.Sprintf("c%d", i)
			m.step(types.UID(fmt.Sprint("pod", random.IntN(5))), id, StateCreated)
			final[id] = StateCreated
			alive = append(alive, id)
			continue
		}
		n := random.IntN(len(alive))
		id := alive[n]
		next := (final[id] + 1) % StateUnknown
		m.step("", id, next)
		final[id] = next
		if next == StateNone {
			alive = slices.Delete(alive, n, n+1)
		}
	}
	for _, id := range alive { // a container that is about to start causes lists
		if final[id] == StateCreated {
			m.step("", id, StateRunning)
			final[id] = StateRunning
		}
	}
	m.mu.Lock()
	m.slow = time.Millisecond
	m.mu.Unlock()
	pass(2 * time.Minute) // enough for the stream to return, without a list after that
	by := emitted(t, r.events)
	want := map[State]PodLifeCycleEventType{StateCreated: ContainerChanged, StateRunning: ContainerStarted, StateExited: ContainerDied, StateNone: ContainerRemoved}
	for id, state := range final {
		switch n := len(by[id]); {
		case n == 0 && state == StateNone: // it came and went between two lists
		case n == 0 || by[id][n-1] != want[state]:
			t.Errorf("%s is %v, the events were %v", id, state, by[id])
		}
	}
	if n := testutil.ToFloat64(r.metrics.dropped); n > 0 && (seed%7 != 0 || m.noEvents) {
		t.Errorf("%v events were dropped, although the receiver is not slow", n)
	}
	if len(r.records.pods) > 5 {
		t.Errorf("there are records of %d pods", len(r.records.pods))
	}
	r.stop()
	for _, f := range followers {
		f.compare(t, r.Generator)
	}
}

// A container that ran only for a moment has exited when the runtime sends its start.
func TestStartedAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		m.late = true
		r := read(t, Options{Runtime: m})
		pass(5 * time.Second)
		m.slow = time.Second
		for _, to := range []State{StateCreated, StateRunning, StateExited} {
			m.step("p", "abc", to)
		}
		pass(5 * time.Second)
		want := []string{"ContainerChanged p/abc", "ContainerStarted p/abc", "ContainerDied p/abc 3"}
		if got := r.take(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		r.stop()
	})
}

// With a stable stream, every event is emitted at once, with every exit code.
func TestEventsAreEmittedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		r := read(t, Options{Runtime: m})
		pass(5 * time.Second)
		begin := time.Now()
		for _, to := range []State{StateCreated, StateRunning, StateExited, StateNone} {
			m.step("p", "abc", to)
			synctest.Wait()
		}
		want := []string{"ContainerChanged p/abc", "ContainerStarted p/abc", "ContainerDied p/abc 3", "ContainerRemoved p/abc"}
		if got := r.take(); !slices.Equal(got, want) || time.Since(begin) > 0 {
			t.Errorf("after %v: %q", time.Since(begin), got)
		}
		r.stop()
	})
}
