package pleg

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// held is a runtime that returns no exit codes until it is released.
type held struct {
	*model
	released chan struct{}
}

func (h *held) Exit(ctx context.Context, id string) (*Exit, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-h.released:
		return h.model.Exit(ctx, id)
	}
}

// exited returns a runtime with a pod whose container c-a has exited.
func exited() *model {
	m := newModel(1)
	for _, to := range []State{StateCreated, StateRunning, StateExited} {
		m.step("a", "c-a", to)
	}
	return m
}

// follow makes the runtime send events, and waits until the stream is open.
func (h *held) follow(t *testing.T, r *receiver) {
	t.Helper()
	h.mu.Lock()
	h.streamErr = nil
	h.mu.Unlock()
	pass(time.Minute)
	if s := r.Status(); s.StreamError != "the event stream has announced no change yet" {
		t.Fatalf("the stream is not open: %+v", s)
	}
}

// inspected runs a generator during the inspection of a pod. Its container c-a has
// exited, and while sets the state of the others. Events are not sent yet.
func inspected(t *testing.T, while func(m *model)) (*held, *receiver) {
	t.Helper()
	m := newModel(1)
	m.streamErr = errors.New("not yet")
	m.step("a", "c-a", StateCreated)
	m.step("a", "c-a", StateRunning)
	h := &held{model: m, released: make(chan struct{})}
	r := read(t, Options{Runtime: h, CallTimeout: time.Hour})
	pass(DefaultRelistPeriod + time.Millisecond)
	expect(t, r, "ContainerStarted a/c-a")
	m.step("a", "c-a", StateExited)
	while(m)
	pass(DefaultRelistPeriod)
	expect(t, r)
	return h, r
}

// A list during an inspection of a pod may be the last one for minutes. Its state of the
// pod counts.
func TestAListDuringAnInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := inspected(t, func(*model) {})
		h.step("a", "next", StateCreated)
		h.step("a", "next", StateRunning)
		h.follow(t, r)
		close(h.released)
		expect(t, r, "ContainerDied a/c-a 3", "ContainerStarted a/next")
		r.stop()
	})
}

// A container that is in one list and not in the next is gone, also if an inspection
// delayed the first one.
func TestAContainerGoesDuringAnInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := inspected(t, func(m *model) {
			m.step("a", "next", StateCreated)
			m.step("a", "next", StateRunning)
		})
		h.step("a", "next", StateNone)
		h.follow(t, r)
		close(h.released)
		expect(t, r, "ContainerDied a/c-a 3", "ContainerStarted a/next", "ContainerDied a/next", "ContainerRemoved a/next")
		r.stop()
	})
}

// A container whose first event is its removal does not return with the list before.
func TestAContainerIsRemovedDuringAnInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := inspected(t, func(m *model) {
			m.step("a", "next", StateCreated)
			m.step("a", "next", StateRunning)
		})
		h.follow(t, r)
		h.step("a", "next", StateNone)
		synctest.Wait()
		close(h.released)
		expect(t, r, "ContainerDied a/c-a 3")
		r.stop()
	})
}

// A pod that is first seen with an exited container has no record during its inspection. A
// list without the pod counts all the same: it may be the last one for minutes.
func TestANewPodGoesDuringItsInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exited()
		m.streamErr = errors.New("not yet")
		h := &held{model: m, released: make(chan struct{})}
		r := read(t, Options{Runtime: h, CallTimeout: time.Hour})
		pass(DefaultRelistPeriod + time.Millisecond)
		expect(t, r)
		h.step("a", "c-a", StateNone)
		h.follow(t, r)
		close(h.released)
		expect(t, r, "ContainerDied a/c-a", "ContainerRemoved a/c-a")
		if pods, _ := r.Pods(); len(pods) > 0 {
			t.Errorf("there are records of %d pods", len(pods))
		}
		r.stop()
	})
}

// While the exit codes of a new pod are requested, it is not known what the runtime has of it. Nobody
// may take it for a pod without containers.
func TestANewPodIsNotKnownDuringItsInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exited()
		h := &held{model: m, released: make(chan struct{})}
		r := read(t, Options{Runtime: h, CallTimeout: time.Hour})
		pass(DefaultRelistPeriod + time.Millisecond)
		if pod, known := r.Pod("a"); pod != nil || known {
			t.Errorf("during the inspection: %v, %t", pod, known)
		}
		if pod, known := r.Pod("other"); pod != nil || !known {
			t.Errorf("a pod that the runtime does not have: %v, %t", pod, known)
		}
		close(h.released)
		expect(t, r, "ContainerDied a/c-a 3")
		if pod, known := r.Pod("a"); pod == nil || len(pod.Containers) != 1 || !known {
			t.Errorf("after the inspection: %v, %t", pod, known)
		}
		r.stop()
	})
}

// A pod that goes while its exit codes can't be had is one that the runtime does not have.
func TestANewPodThatGoesIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exited()
		h := &held{model: m, released: make(chan struct{})}
		r := read(t, Options{Runtime: h, CallTimeout: time.Millisecond})
		pass(DefaultRelistPeriod + 100*time.Millisecond)
		if pod, known := r.Pod("a"); pod != nil || known {
			t.Errorf("after an inspection that failed: %v, %t", pod, known)
		}
		h.step("a", "c-a", StateNone)
		pass(3 * DefaultRelistPeriod)
		if pod, known := r.Pod("a"); pod != nil || !known {
			t.Errorf("after the pod has gone: %v, %t", pod, known)
		}
		r.stop()
	})
}

// refusing is a runtime that returns an error instead of an exit code, until it is well.
type refusing struct {
	*model
	well atomic.Bool
}

func (r *refusing) Exit(ctx context.Context, id string) (*Exit, error) {
	if r.well.Load() {
		return r.model.Exit(ctx, id)
	}
	return nil, errors.New("no such code")
}

// A pod that can't be inspected is requested again at each list, and logged once. The end of that is logged too.
func TestAFailedInspectionIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &refusing{model: exited()}
		r := read(t, Options{Runtime: runtime})
		pass(20*DefaultRelistPeriod + time.Millisecond)
		failures := testutil.ToFloat64(r.metrics.inspectErrors)
		if strings.Contains(r.log.String(), "inspected again") {
			t.Errorf("the log has an end that did not come:\n%s", r.log.String())
		}
		runtime.well.Store(true)
		pass(20 * DefaultRelistPeriod)
		r.stop()
		if n := strings.Count(r.log.String(), `"The pod is inspected again"`); n != 1 {
			t.Errorf("%d log lines of the end:\n%s", n, r.log.String())
		}
		if n := strings.Count(r.log.String(), "Failed to inspect a pod"); n != 1 || failures < 10 {
			t.Errorf("%d log lines after %v failures:\n%s", n, failures, r.log.String())
		}
	})
}

// While the exit code of a container can't be read, the other containers of its pod come and go as before.
func TestAFailedInspectionHidesNoOtherContainer(t *testing.T) {
	for name, runtime := range map[string]func(*model) Runtime{
		"refused": func(m *model) Runtime { return &refusing{model: m} },
		"hung":    func(m *model) Runtime { return &held{model: m, released: make(chan struct{})} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := exited()
				r := read(t, Options{Runtime: runtime(m), RelistOnly: true})
				const long = defaultCallTimeout + 3*DefaultRelistPeriod
				pass(long)
				m.step("a", "next", StateCreated)
				m.step("a", "next", StateRunning)
				pass(long)
				expect(t, r, "ContainerStarted a/next")
				if found, ok := r.FindContainer("next"); !ok || found.Container.State != StateRunning {
					t.Errorf("the container that runs is not found: %+v", found)
				}
				if _, known := r.Pod("a"); known {
					t.Error("the pod is known, without the container that exited")
				}
				if len(r.Uninspected()) != 1 {
					t.Error("the pod is inspected")
				}
				m.step("a", "next", StateNone)
				pass(2 * long)
				expect(t, r, "ContainerDied a/next", "ContainerRemoved a/next")
				m.step("a", "c-a", StateNone)
				pass(2 * long)
				if pod, known := r.Pod("a"); pod != nil || !known || len(r.Uninspected()) != 0 {
					t.Errorf("after the pod has gone: %v, %t, %v", pod, known, r.Uninspected())
				}
				r.stop()
			})
		})
	}
}
