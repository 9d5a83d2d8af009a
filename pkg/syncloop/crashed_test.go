package syncloop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	plegrecorder "github.com/podconfigd/podconfigd/pkg/pleg/recorder"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// crashed is a runtime with one pod, created at born: a sandbox, a container that has exited, and its
// next attempt, whose event comes after a while.
type crashed struct {
	uid   types.UID
	born  time.Time
	event time.Duration
	// slow is how long an exit code takes. If never is true, it can't be had.
	slow  time.Duration
	never bool

	mu     sync.Mutex // guards starts
	starts bool
}

func (a *crashed) pod() *pleg.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &pleg.Pod{UID: a.uid, Namespace: "default", Name: "a", Containers: []pleg.Container{
		{ID: "s", Sandbox: true, State: pleg.StateRunning, CreatedAt: a.born},
		{ID: "c-0", Name: "c", State: pleg.StateExited, CreatedAt: a.born},
	}}
	if a.starts {
		p.Containers = append(p.Containers, pleg.Container{ID: "c-1", Name: "c", State: pleg.StateRunning, CreatedAt: a.born.Add(time.Minute)})
	}
	return p
}

func (a *crashed) Pods(context.Context) ([]*pleg.Pod, error) { return []*pleg.Pod{a.pod()}, nil }
func (a *crashed) Exit(ctx context.Context, _ string) (*pleg.Exit, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(a.slow):
	}
	if a.never {
		return nil, errors.New("broken")
	}
	return new(pleg.Exit), nil
}

func (a *crashed) Events(ctx context.Context, opened func(), handle func(pleg.RuntimeEvent)) error {
	opened()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(a.event):
	}
	a.mu.Lock()
	a.starts = true
	a.mu.Unlock()
	handle(pleg.RuntimeEvent{Type: pleg.EventStarted, ContainerID: "c-1", Pod: a.pod()})
	<-ctx.Done()
	return ctx.Err()
}

func (a *crashed) Record(_ context.Context, sandboxes, containers []string) (*podstatus.Record, string, error) {
	r := new(podstatus.Record)
	if slices.Contains(sandboxes, "s") {
		r.Sandboxes = append(r.Sandboxes, &runtimeapi.PodSandboxStatus{
			Id: "s", Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(a.uid)}, CreatedAt: a.born.UnixNano(),
		})
	}
	for _, id := range containers {
		s := &runtimeapi.ContainerStatus{
			Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, State: runtimeapi.ContainerState_CONTAINER_EXITED,
			CreatedAt: a.born.UnixNano(), Image: &runtimeapi.ImageSpec{Image: "i"},
		}
		if id == "c-1" {
			s.State, s.CreatedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, a.born.Add(time.Minute).UnixNano()
		}
		r.Containers = append(r.Containers, s)
	}
	return r, "containerd", nil
}

// lastStatus records the last status of each pod.
type lastStatus struct {
	*shown
	last map[types.UID]*v1.PodStatus
}

func (s *lastStatus) keep(u config.PodUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, pod := range u.Pods {
		if i < len(u.Statuses) {
			s.last[pod.UID] = u.Statuses[i]
		}
	}
}

func (s *lastStatus) HandlePodAdditions(_ context.Context, u config.PodUpdate) { s.note(u); s.keep(u) }
func (s *lastStatus) HandlePodReconcile(_ context.Context, u config.PodUpdate) { s.note(u); s.keep(u) }

// runCrashed runs a loop with the generator and the recorder of the runtime.
func runCrashed(t *testing.T, a *crashed, change func(*Options)) (*statusHarness, *lastStatus, func()) {
	t.Helper()
	g := pleg.New(pleg.Options{Runtime: a, CallTimeout: time.Minute})
	rec := plegrecorder.New(plegrecorder.Options{Reader: a, Pod: g.Pod})
	var last *lastStatus
	h := runStatus(t, func(opts *Options, h *statusHarness) {
		last = &lastStatus{shown: &shown{h.recorder}, last: make(map[types.UID]*v1.PodStatus)}
		opts.Handler, opts.PLEG, opts.Status.Records = last, g, rec
		if change != nil {
			change(opts)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = g.Run(ctx) })
	group.Go(func() { _ = rec.Run(ctx) })
	return h, last, func() { cancel(); group.Wait(); h.stop(t) }
}

// The status of a pod that crashes while the daemon starts begins with its sandbox.
func TestTheStartTimeOfAPodThatCrashes(t *testing.T) {
	for _, event := range []time.Duration{0, 100 * time.Millisecond} { // before the first list, and during the inspection
		t.Run(event.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &crashed{uid: "a", born: time.Now().Add(-24 * time.Hour), slow: 300 * time.Millisecond, event: event}
				h, last, stop := runCrashed(t, a, nil)
				h.add("file", static("a"))
				pass(10 * time.Minute)
				h.mu.Lock()
				if s := last.last["a"]; s == nil || s.StartTime == nil || !s.StartTime.Time.Equal(a.born) {
					t.Errorf("the sandbox was created at %v; the status is %+v", a.born, s)
				}
				h.mu.Unlock()
				stop()
			})
		})
	}
}

// A restored pod that the runtime no longer has runs no more, also beside a pod without a UID.
func TestARestoredPodBesideOneWithoutUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		running := v1.PodStatus{
			Phase: v1.PodRunning, StartTime: &now, HostIP: "192.0.2.1", HostIPs: []v1.HostIP{{IP: "192.0.2.1"}},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "c", ContainerID: "containerd://0", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			}},
		}
		a := &crashed{uid: "", born: time.Now().Add(-24 * time.Hour), never: true, event: 1000 * time.Hour}
		h, last, stop := runCrashed(t, a, func(opts *Options) {
			opts.Restored = []config.PodUpdate{{
				Op: config.ADD, Source: "file", Pods: []*v1.Pod{static("b")}, Files: []*config.File{{Path: "b.yaml"}},
				Statuses: []*v1.PodStatus{&running},
			}}
		})
		pass(time.Hour)
		h.mu.Lock()
		if s := last.last["b"]; s == nil || s.ContainerStatuses[0].State.Running != nil {
			t.Errorf("the runtime does not have b; after an hour it still runs: %q, status %v", h.calls, s)
		}
		h.mu.Unlock()
		stop()
	})
}
