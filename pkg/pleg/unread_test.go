package pleg

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// boxed shows the container "s" as a sandbox.
type boxed struct{ *held }

func (b boxed) Pods(ctx context.Context) ([]*Pod, error) {
	pods, err := b.held.Pods(ctx)
	for _, p := range pods {
		for i := range p.Containers {
			p.Containers[i].Sandbox = p.Containers[i].ID == "s"
		}
	}
	return pods, err
}

// crashed returns the runtime of exited, in which the sandbox s of the pod runs.
func crashed() (*model, *held) {
	m := exited()
	m.step("a", "s", StateCreated)
	m.step("a", "s", StateRunning)
	return m, &held{model: m, released: make(chan struct{})}
}

func containers(p *Pod) (ids []string) {
	if p != nil {
		for _, c := range p.Containers {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// An event of a new pod during its inspection makes a record of that container alone.
func TestAnEventDuringTheInspectionOfANewPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := crashed()
		r := read(t, Options{Runtime: boxed{h}, CallTimeout: time.Hour})
		pass(DefaultRelistPeriod + time.Millisecond)
		if pod, known := r.Pod("a"); known {
			t.Fatalf("before the event: %v, known", containers(pod))
		}
		m.step("a", "next", StateCreated)
		m.step("a", "next", StateRunning)
		synctest.Wait()
		if pod, known := r.Pod("a"); known && len(containers(pod)) < 2 {
			t.Errorf("the sandbox s and next run, the pod is known as %v", containers(pod))
		}
		close(h.released)
		pass(time.Minute)
		if pod, known := r.Pod("a"); pod == nil || !known {
			t.Errorf("at last: %v, %t", pod, known)
		}
		r.stop()
	})
}

// An event before the first list makes a record of one container alone, too.
func TestAnEventBeforeTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := crashed()
		m.keeps = true
		m.step("a", "next", StateCreated) // sent when the stream opens
		m.step("a", "next", StateRunning)
		r := read(t, Options{Runtime: slowList{boxed{h}}, CallTimeout: time.Hour})
		pass(2 * DefaultRelistPeriod)
		if pod, known := r.Pod("a"); known && len(containers(pod)) < 3 {
			t.Errorf("s, c-a and next are listed, the pod is known as %v", containers(pod))
		}
		close(h.released)
		pass(time.Minute)
		if pod, known := r.Pod("a"); pod == nil || !known {
			t.Errorf("at last: %v, %t", pod, known)
		}
		r.stop()
	})
}

type slowList struct{ boxed }

func (s slowList) Pods(ctx context.Context) ([]*Pod, error) {
	time.Sleep(100 * time.Millisecond) //nolint:forbidigo // virtual time
	return s.boxed.Pods(ctx)
}

// A new pod whose inspection left no record stays unknown during the next one.
func TestTheNextInspectionOfANewPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exited()
		h := &heldEach{model: m, released: map[string]chan struct{}{"c-a": make(chan struct{}), "c-b": make(chan struct{})}}
		r := read(t, Options{Runtime: h, CallTimeout: time.Hour})
		pass(DefaultRelistPeriod + time.Millisecond)
		m.step("a", "c-a", StateNone) // its event comes
		synctest.Wait()
		m.breakStream() // the events of the next do not
		for _, to := range []State{StateCreated, StateRunning, StateExited} {
			m.step("a", "c-b", to)
		}
		pass(10 * time.Second)
		if pod, known := r.Pod("a"); pod != nil || known {
			t.Errorf("during the first inspection: %v, %t", containers(pod), known)
		}
		close(h.released["c-a"])
		synctest.Wait()
		if pod, known := r.Pod("a"); pod == nil && known {
			t.Errorf("during the second inspection, the runtime counts as not having the pod")
		}
		pass(10 * time.Millisecond)
		close(h.released["c-b"])
		pass(time.Minute)
		if pod, known := r.Pod("a"); pod == nil || !known {
			t.Errorf("at last: %v, %t", pod, known)
		}
		r.stop()
	})
}

type heldEach struct {
	*model
	released map[string]chan struct{}
}

func (h *heldEach) Exit(ctx context.Context, id string) (*Exit, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-h.released[id]:
		return h.model.Exit(ctx, id)
	}
}
