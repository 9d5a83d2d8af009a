package pleg

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// held is a runtime that does not tell exit codes before it is let go.
type held struct {
	*model
	released chan struct{}
}

func (h *held) ExitCode(ctx context.Context, id string) (*int32, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-h.released:
		return h.model.ExitCode(ctx, id)
	}
}

// follow has the runtime tell of events from now on, and waits until they are relied on.
func (h *held) follow(t *testing.T, r *reader) {
	t.Helper()
	h.mu.Lock()
	h.streamErr = nil
	h.mu.Unlock()
	pass(time.Minute)
	if !r.Status().Evented {
		t.Fatalf("events are not relied on: %+v", r.Status())
	}
}

// inspected runs a generator while a pod's inspection takes its time: its container
// c-a has exited, and while listed is the state of the others. Events are not told yet.
func inspected(t *testing.T, while func(m *model)) (*held, *reader) {
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

// A list that comes while a pod is inspected may be the last one for minutes: what it
// has of the pod counts.
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

// A container that one list has and the next does not is gone, also where an
// inspection kept the first one waiting.
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

// A container whose removal is the first that is told of it is not brought back by
// the list before.
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
