package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// replica applies the stream, and checks its guarantees.
type replica struct {
	mu       sync.Mutex
	pods     map[string]*v1.Pod // by UID
	revision int64
	broken   []error
	changed  chan struct{}
	// updates counts the pods in the stream, by operation.
	updates map[v1alpha1.Op]int
	// backwards means that pods may return to an earlier version.
	backwards bool
	// check, if set, is called with each pod of the stream.
	check func(op v1alpha1.Op, pod *v1.Pod) error
}

func follow(t *testing.T, d *daemon) *replica {
	t.Helper()
	return followWith(t, d, nil)
}

func followWith(t *testing.T, d *daemon, check func(op v1alpha1.Op, pod *v1.Pod) error) *replica {
	t.Helper()
	f := &replica{
		pods: make(map[string]*v1.Pod), changed: make(chan struct{}), updates: make(map[v1alpha1.Op]int), check: check,
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for u, err := range d.client.Updates(ctx, client.Options{}) {
			if err != nil {
				t.Errorf("the stream: %v", err)
				return
			}
			f.take(u)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := f.err(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *replica) fail(format string, args ...any) {
	f.broken = append(f.broken, fmt.Errorf(format, args...))
}

func (f *replica) take(u *v1alpha1.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case u.Reset:
		f.fail("the stream was reset: %s", u.Message)
	case u.Op == v1alpha1.OpBookmark || u.Revision == 0:
	case u.Revision < f.revision:
		f.fail("revision %d after %d", u.Revision, f.revision)
	}
	f.revision = max(f.revision, u.Revision)
	f.updates[u.Op] += len(u.Pods)
	for _, pod := range u.Pods {
		before, known := f.pods[string(pod.UID)]
		switch {
		case u.Op == v1alpha1.OpAdd && known:
			f.fail("%s was added twice", pod.Name)
		case u.Op != v1alpha1.OpAdd && !known:
			f.fail("%s of %s, which was not there", u.Op, pod.Name)
		case u.Op == v1alpha1.OpReconcile && before.Generation > pod.Generation && !f.backwards:
			f.fail("%s went back in time", pod.Name)
		}
		if u.Op == v1alpha1.OpRemove {
			delete(f.pods, string(pod.UID))
		} else {
			f.pods[string(pod.UID)] = pod
		}
		if f.check != nil {
			if err := f.check(u.Op, pod); err != nil {
				f.broken = append(f.broken, err)
			}
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// err returns the first error of the stream.
func (f *replica) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.broken...)
}

// state returns the pods.
func (f *replica) state() []*v1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stateLocked()
}

// stateLocked is state for conditions, which run with the lock held.
func (f *replica) stateLocked() []*v1.Pod {
	return slices.Collect(maps.Values(f.pods))
}

// await waits until the condition holds for the pods.
func (f *replica) await(t *testing.T, what string, holds func(pods map[string]*v1.Pod) bool) {
	t.Helper()
	deadline := time.After(testutil.Patience)
	for {
		f.mu.Lock()
		ok, changed, state := holds(f.pods), f.changed, f.stateLocked()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			names := make([]string, len(state))
			for i, pod := range state {
				names[i] = fmt.Sprintf("%s step %s", pod.Name, pod.Labels["step"])
			}
			slices.Sort(names)
			t.Fatalf("not within %v: %s; there are %q", testutil.Patience, what, names)
		}
	}
}

// run runs a command of podconfigd against the daemon.
func (d *daemon) run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "PODCONFIGD_SOCKET="+d.socket)
	data, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(data) + string(exit.Stderr), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data), 0
}

// counts returns the number of pods for each operation.
func (f *replica) counts() map[v1alpha1.Op]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.updates)
}
