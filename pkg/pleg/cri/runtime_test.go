package cri_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
	"github.com/podconfigd/podconfigd/test/components"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) {
	testutil.Parallel(8) // those that are parallel mostly wait
	goleak.VerifyTestMain(m)
}

// observer is a running generator and its events.
type observer struct {
	*pleg.Generator
	events chan *pleg.PodLifecycleEvent
}

// watch runs a generator on a socket until the test ends.
func watch(t *testing.T, socket string, opts pleg.Options) *observer {
	t.Helper()
	runtime, err := cri.New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	opts.Runtime = runtime
	w := &observer{Generator: pleg.New(opts), events: make(chan *pleg.PodLifecycleEvent, 10000)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-w.Watch():
				w.events <- e
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		runtime.Close()
	})
	return w
}

// line returns an event as text: its type, its pod, its container or "sandbox", and the
// exit code.
func line(e *pleg.PodLifecycleEvent) string {
	s := fmt.Sprintf("%s %s/%s", strings.TrimPrefix(string(e.Type), "Container"), e.ID, e.Container)
	if e.Container == "" && e.ContainerID != "" {
		s += "sandbox"
	}
	if e.ExitCode != nil {
		s += fmt.Sprint(" ", *e.ExitCode)
	}
	return s
}

// patience is the longest wait of a test. A machine may be slow.
const patience = 2 * time.Minute

// incidental reports whether an event may come at any time: ContainerChanged, and PodSync
// for a pod whose inspection took too long.
func incidental(e *pleg.PodLifecycleEvent) bool {
	return e.Type == pleg.ContainerChanged || e.Type == pleg.PodSync
}

// await waits until each of these events has come, in any order. It accepts other events
// only if they are incidental or have a question mark.
func (w *observer) await(t *testing.T, want ...string) {
	t.Helper()
	missing := slices.Clone(want)
	deadline := time.After(patience)
	for slices.ContainsFunc(missing, func(s string) bool { return s[0] != '?' }) {
		select {
		case e := <-w.events:
			got := line(e)
			i := slices.IndexFunc(missing, func(s string) bool { return strings.TrimPrefix(s, "?") == got })
			if i < 0 && incidental(e) {
				continue
			}
			if i < 0 {
				t.Fatalf("unexpected event %q; still to come: %q", got, missing)
			}
			missing = slices.Delete(missing, i, i+1)
		case <-deadline:
			t.Fatalf("not within %v: %q; status %+v", patience, missing, w.Status())
		}
	}
}

// quiet waits until the runtime has been listed, or some time if it sends events. No
// event may come.
func (w *observer) quiet(t *testing.T) {
	t.Helper()
	relists := w.Status().Relists
	enough, deadline := time.After(2*time.Second), time.Now().Add(patience)
	for {
		select {
		case e := <-w.events:
			if !incidental(e) {
				t.Fatalf("unexpected event %q", line(e))
			}
		case <-enough:
			s := w.Status()
			if s.Relists > relists {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the runtime was not listed in the meantime")
			}
			enough = time.After(100 * time.Millisecond)
		}
	}
}

// mode waits until the event stream is open, or it is known that there is none.
func (w *observer) mode(t *testing.T, runtime string) {
	t.Helper()
	until(t, "the way of the events is known", func() bool {
		s := w.Status()
		open := s.Evented || strings.Contains(s.StreamError, "announced no change yet")
		return open == (runtime == components.Containerd) && (s.Evented || s.StreamError != "") && s.Relists > 0
	})
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// each runs a test on both containerds.
func each(t *testing.T, run func(t *testing.T, r *components.Runtime, name string)) {
	t.Helper()
	testutil.Long(t)
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, components.StartRuntime(t, name), name)
		})
	}
}

func TestLifeOfContainers(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, name string) {
		t.Helper()
		w := watch(t, r.Socket, pleg.Options{})
		w.mode(t, name)
		sandbox := r.Sandbox(t, "p", "uid")
		w.await(t, "Started uid/sandbox")
		ids := map[string]string{}
		for container, args := range map[string][]string{
			"zero": {"exit", "0"}, "three": {"exit", "3"}, "killed": {"pause"}, "removed": {"pause"},
		} {
			ids[container] = r.Create(t, sandbox, "p", "uid", container, args...)
		}
		r.StartContainer(t, ids["killed"])
		r.StartContainer(t, ids["removed"])
		w.await(t, "Started uid/killed", "Started uid/removed")
		r.StartContainer(t, ids["zero"])
		r.StartContainer(t, ids["three"])
		// A list may be too late to see a container run, or to request its exit code.
		w.await(t, "Died uid/zero 0", "Died uid/three 3", "?Started uid/zero", "?Started uid/three")
		r.KillContainer(t, ids["killed"], syscall.SIGKILL)
		w.await(t, "Died uid/killed 137")
		r.RemoveContainer(t, ids["removed"])
		w.await(t, "?Died uid/removed", "?Died uid/removed 137", "Removed uid/removed")
		r.RemoveContainer(t, ids["zero"])
		w.await(t, "Removed uid/zero")
		r.RemoveSandbox(t, sandbox)
		w.await(t, "Removed uid/three", "Removed uid/killed", "Died uid/sandbox", "Removed uid/sandbox")
		if pods, known := w.Pods(); !known || len(pods) > 0 {
			t.Errorf("left: %v", pods)
		}
	})
}

// relisting returns a proxy that hides the runtime's events.
func relisting(t *testing.T, r *components.Runtime) *components.CRIProxy {
	t.Helper()
	p := r.Proxy(t)
	p.Before("GetContainerEvents", func(context.Context, []byte) error {
		return status.Error(codes.Unimplemented, "there are no events here")
	})
	return p
}

// run runs a pod of one container, and returns the IDs of its sandbox and container.
func run(t *testing.T, r *components.Runtime, uid string, args ...string) (sandbox, container string) {
	t.Helper()
	sandbox = r.Sandbox(t, uid, uid)
	container = r.Create(t, sandbox, uid, uid, "c", args...)
	r.StartContainer(t, container)
	return sandbox, container
}

// Pods are started ten at a time.
func TestManyPods(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, name string) {
		t.Helper()
		w := watch(t, r.Socket, pleg.Options{})
		w.mode(t, name)
		var wg sync.WaitGroup
		var want []string
		for i := range 15 {
			uid := fmt.Sprintf("pod%02d", i)
			want = append(want, "Started "+uid+"/sandbox", "?Started "+uid+"/c", fmt.Sprintf("Died %s/c %d", uid, i%3))
			if i%10 == 0 {
				wg.Wait()
			}
			wg.Go(func() { run(t, r, uid, "exit", fmt.Sprint(i%3)) })
		}
		wg.Wait()
		w.await(t, want...)
		w.quiet(t)
	})
}

func TestAHungInspection(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, _ string) {
		t.Helper()
		p := relisting(t, r)
		w := watch(t, p.Socket, pleg.Options{CallTimeout: patience})
		_, hung := run(t, r, "hung", "pause")
		_, other := run(t, r, "other", "pause")
		w.await(t, "Started hung/sandbox", "Started hung/c", "Started other/sandbox", "Started other/c")
		release := p.Hang("ContainerStatus", hung)
		defer release()
		r.KillContainer(t, hung, syscall.SIGKILL)
		r.KillContainer(t, other, syscall.SIGKILL)
		w.await(t, "Died other/c 137")
		w.quiet(t)
		release()
		w.await(t, "Died hung/c 137")
	})
}

func TestAHungList(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, _ string) {
		t.Helper()
		p := relisting(t, r)
		w := watch(t, p.Socket, impatient)
		_, c := run(t, r, "uid", "pause")
		w.await(t, "Started uid/sandbox", "Started uid/c")
		release := p.Hang("ListContainers", "")
		defer release()
		r.KillContainer(t, c, syscall.SIGKILL)
		w.sick(t, "listing the containers of the runtime: rpc error: code = DeadlineExceeded desc = no answer in time")
		release()
		w.recovers(t)
		w.await(t, "Died uid/c 137")
		w.quiet(t)
	})
}

func TestTheRuntimeStops(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, name string) {
		t.Helper()
		w := watch(t, r.Socket, impatient)
		w.mode(t, name)
		_, c := run(t, r, "uid", "pause")
		w.await(t, "Started uid/sandbox", "Started uid/c")
		process := r.PID(t, c)
		r.Signal(t, syscall.SIGSTOP)
		if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.sick(t, "DeadlineExceeded")
		r.Signal(t, syscall.SIGCONT)
		w.recovers(t)
		w.await(t, "Died uid/c 137")
		w.quiet(t)
		w.mode(t, name)
	})
}

// The stream of events breaks repeatedly while containers come and go. Each event is
// emitted once.
func TestTheStreamBreaks(t *testing.T) {
	testutil.Long(t)
	r := components.StartRuntime(t, components.Containerd)
	p := r.Proxy(t)
	w := watch(t, p.Socket, pleg.Options{RelistPeriod: 100 * time.Millisecond})
	w.mode(t, components.Containerd)
	sandbox := r.Sandbox(t, "p", "uid")
	w.await(t, "Started uid/sandbox")
	var want []string
	for i := range 15 {
		name := fmt.Sprint("c", i)
		id := r.Create(t, sandbox, "p", "uid", name, "exit", fmt.Sprint(i%3))
		if i%2 == 0 {
			p.Break()
		}
		r.StartContainer(t, id)
		if i%3 == 0 {
			p.Break()
		}
		if code := r.ExitCode(t, id); code != int32(i%3) {
			t.Fatalf("%s exited with %d", name, code)
		}
		want = append(want, "?Started uid/"+name, fmt.Sprintf("Died uid/%s %d", name, i%3))
		if i%5 == 0 {
			p.Break()
		}
	}
	w.await(t, want...)
	w.quiet(t)
	w.mode(t, components.Containerd)
	if n := w.Status().Fallbacks; n == 0 {
		t.Error("the stream never broke")
	}
}

// The runtime restarts at once, and again after it was away for longer than the longest wait between two connections.
// Each time, a container dies meanwhile.
func TestTheRuntimeRestarts(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, name string) {
		t.Helper()
		w := watch(t, r.Socket, pleg.Options{RelistPeriod: 200 * time.Millisecond})
		w.mode(t, name)
		run(t, r, "stays", "pause")
		_, first := run(t, r, "first", "pause")
		_, second := run(t, r, "second", "pause")
		sandbox, _ := run(t, r, "goes", "pause")
		w.await(t, "Started stays/sandbox", "Started stays/c", "Started first/sandbox", "Started first/c",
			"Started second/sandbox", "Started second/c", "Started goes/sandbox", "Started goes/c")
		w.restart(t, r, first, 0)
		// containerd 2.4 does not request the code from its shim, and returns 255.
		w.await(t, fmt.Sprint("Died first/c ", r.ExitCode(t, first)))
		w.mode(t, name)
		w.restart(t, r, second, 4*time.Second)
		w.await(t, fmt.Sprint("Died second/c ", r.ExitCode(t, second)))
		r.RemoveSandbox(t, sandbox)
		w.await(t, "?Died goes/c", "?Died goes/c 137", "Removed goes/c", "Died goes/sandbox", "Removed goes/sandbox")
		w.quiet(t)
		w.mode(t, name)
		if n := w.Status().Fallbacks; (n > 0) != (name == components.Containerd) {
			t.Errorf("%d fallbacks", n)
		}
	})
}

// restart kills the runtime and the process of a container, and starts the runtime again after that time.
func (w *observer) restart(t *testing.T, r *components.Runtime, container string, down time.Duration) {
	t.Helper()
	process := r.PID(t, container)
	r.Kill(t)
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if down > 0 {
		until(t, "that it is gone is noticed", func() bool { return w.Status().LastError != "" })
		<-time.After(down)
	}
	r.Start(t)
	r.Await(t)
}
