package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func expect(t *testing.T, r *receiver, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// relisted runs a generator on a runtime without events. The runtime has pods of one
// running container each.
func relisted(t *testing.T, opts Options, pods ...types.UID) (*model, *receiver) {
	t.Helper()
	m := newModel(1)
	m.noEvents = true
	want := make([]string, len(pods))
	for i, pod := range pods {
		m.step(pod, "c-"+string(pod), StateCreated)
		m.step(pod, "c-"+string(pod), StateRunning)
		want[i] = fmt.Sprintf("ContainerStarted %s/c-%s", pod, pod)
	}
	opts.Runtime = m
	r := read(t, opts)
	pass(DefaultRelistPeriod + time.Millisecond)
	expect(t, r, want...)
	return m, r
}

func TestRelisting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := relisted(t, Options{}, "a")
		m.step("a", "c-a", StateExited)
		expect(t, r)
		pass(DefaultRelistPeriod)
		expect(t, r, "ContainerDied a/c-a 3")
		pass(10 * DefaultRelistPeriod)
		expect(t, r)
		m.step("a", "c-a", StateNone)
		m.step("a", "next", StateCreated)
		m.step("a", "next", StateRunning)
		pass(DefaultRelistPeriod)
		expect(t, r, "ContainerRemoved a/c-a", "ContainerStarted a/next")
		m.step("a", "next", StateExited)
		m.step("a", "next", StateNone)
		pass(DefaultRelistPeriod)
		expect(t, r, "ContainerDied a/next", "ContainerRemoved a/next")
		if pods, known := r.Pods(); !known || len(pods) > 0 {
			t.Errorf("left are %v", pods)
		}
		r.stop()
	})
}

func TestAHungInspectionDelaysItsPodOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := relisted(t, Options{}, "a", "b")
		m.hung["c-a"] = true
		m.step("a", "c-a", StateExited)
		m.step("b", "c-b", StateExited)
		pass(DefaultRelistPeriod)
		expect(t, r, "ContainerDied b/c-b 3")
		relists := r.Status().Relists
		pass(defaultCallTimeout / 2)
		if n := r.Status().Relists - relists; n < 14 {
			t.Errorf("only %d lists in the meantime", n)
		}
		expect(t, r)
		m.mu.Lock()
		m.hung["c-a"] = false
		m.mu.Unlock()
		pass(defaultCallTimeout) // the hanging call is canceled, and another one made
		expect(t, r, "ContainerDied a/c-a 3")
		r.stop()
	})
}

func TestManyHungInspections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []types.UID
		for i := range 2 * maxInspections {
			pods = append(pods, types.UID(fmt.Sprintf("p%02d", i)))
		}
		m, r := relisted(t, Options{}, pods...)
		m.mu.Lock()
		for _, pod := range pods[:maxInspections] {
			m.hung["c-"+string(pod)] = true
		}
		m.mu.Unlock()
		for _, pod := range pods {
			m.step(pod, "c-"+string(pod), StateExited)
		}
		pass(2 * defaultCallTimeout)
		if n := len(r.take()); n < maxInspections {
			t.Errorf("%d pods had events, there are %d that don't hang", n, maxInspections)
		}
		m.mu.Lock()
		clear(m.hung)
		m.mu.Unlock()
		pass(3 * defaultCallTimeout)
		if got := len(r.inspecting) + len(r.later); got > 0 {
			t.Errorf("%d inspections are left", got)
		}
		r.stop()
	})
}

// A pod whose inspection failed, and whose other changes came as events in the meantime,
// gets a PodSync.
func TestPodSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		m.steps("a", "c-a", StateCreated, StateRunning)
		r := read(t, Options{Runtime: m})
		pass(5 * time.Second)
		expect(t, r, "ContainerStarted a/c-a")
		m.mu.Lock()
		m.hung["c-a"] = true
		m.mu.Unlock()
		m.mute(func() { m.step("a", "c-a", StateExited) }) // the event is late
		pass(2 * DefaultRelistPeriod)                      // a list causes its inspection
		m.mu.Lock()
		m.send(EventStopped, "c-a")
		m.mu.Unlock()
		expect(t, r, "ContainerDied a/c-a 3")
		pass(defaultCallTimeout + 2*DefaultRelistPeriod)
		expect(t, r, "PodSync a/")
		pass(time.Hour)
		expect(t, r)
		r.stop()
	})
}

func TestHealth(t *testing.T) {
	for _, noEvents := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(1)
			m.noEvents = noEvents
			r := read(t, Options{Runtime: m})
			healthy := func(want string) {
				t.Helper()
				ok, err := r.Healthy()
				if want == "" && !ok || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("healthy %v, %v; want %q", ok, err, want)
				}
			}
			pass(20 * time.Minute)
			healthy("")
			m.mu.Lock()
			m.fail = errors.New("the runtime is on holiday")
			m.mu.Unlock()
			pass(DefaultRelistThreshold - 2*DefaultRelistPeriod)
			healthy("")
			pass(4 * DefaultRelistPeriod)
			healthy("; threshold 3m; last error: the runtime is on holiday")
			healthy("pleg was last seen active 3m")
			m.mu.Lock()
			m.fail = nil
			m.mu.Unlock()
			pass(2 * DefaultRelistPeriod)
			healthy("")
			r.stop()
		})
	}
}

// The runtime may take as long as the threshold to start.
func TestHealthAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		m.fail = errors.New("not there yet")
		r := read(t, Options{Runtime: m})
		if _, known := r.Pods(); known {
			t.Error("pods are known without a list")
		}
		pass(DefaultRelistThreshold)
		if ok, err := r.Healthy(); !ok {
			t.Error(err)
		}
		pass(time.Second)
		if ok, _ := r.Healthy(); ok {
			t.Error("healthy after the threshold")
		}
		r.stop()
	})
}

// Every call has a deadline, also the one of a list.
func TestAHungListIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := relisted(t, Options{}, "a")
		m.mu.Lock()
		m.slow = time.Hour
		m.mu.Unlock()
		before := r.Status()
		pass(10*(defaultCallTimeout+DefaultRelistPeriod) + time.Second)
		after := r.Status()
		if n := after.RelistErrors - before.RelistErrors; n < 8 || !strings.Contains(after.LastError, "deadline") {
			t.Errorf("%d lists were given up; the last error is %q", n, after.LastError)
		}
		m.mu.Lock()
		m.slow = 0
		m.mu.Unlock()
		pass(defaultCallTimeout + DefaultRelistPeriod)
		if s := r.Status(); s.LastError != "" {
			t.Errorf("the last error is %q still", s.LastError)
		}
		r.stop()
	})
}

// Without a receiver, nothing is delayed and nothing is lost.
func TestNoReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		g := New(Options{Runtime: m})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		pass(5 * time.Second)
		const containers = 1000
		for i := range containers {
			for _, to := range []State{StateCreated, StateRunning, StateExited, StateNone} {
				m.step("p", fmt.Sprint("c", i), to)
			}
		}
		pass(time.Hour)
		if ok, err := g.Healthy(); !ok {
			t.Error(err)
		}
		for i := range 4 * containers {
			if e := <-g.Watch(); e.ContainerID != fmt.Sprint("c", i/4) {
				t.Fatalf("event %d is of %s", i, e.ContainerID)
			}
		}
		cancel()
		<-done
	})
}

// If a container can't be started, the runtime sends no event. A list finds it soon.
func TestAContainerThatCannotBeStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		r := read(t, Options{Runtime: m})
		pass(5 * time.Second)
		m.step("a", "c-a", StateCreated)
		expect(t, r, "ContainerChanged a/c-a")
		pass(time.Hour)
		m.mute(func() { m.step("a", "c-a", StateExited) })
		pass(DefaultRelistPeriod + time.Millisecond)
		expect(t, r, "ContainerDied a/c-a 3")
		r.stop()
	})
}

// If a runtime fails for an hour in one way, the log has one line, and one more when it
// recovers.
func TestAnErrorIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := relisted(t, Options{}, "a")
		for _, err := range []error{errors.New("out to lunch"), nil} {
			m.mu.Lock()
			m.fail = err
			m.mu.Unlock()
			pass(time.Hour)
		}
		r.stop()
		for _, line := range []string{"out to lunch", "The runtime recovered"} {
			if n := strings.Count(r.log.String(), line); n != 1 {
				t.Errorf("%q is in the log %d times:\n%s", line, n, r.log.String())
			}
		}
	})
}
