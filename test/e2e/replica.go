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
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Replica applies the stream, and checks its guarantees.
type Replica struct {
	mu       sync.Mutex
	pods     map[string]*v1.Pod // by UID
	revision int64
	broken   []error
	changed  chan struct{}
	// updates counts the pods in the stream, by operation.
	updates map[v1alpha1.Op]int
	// backwards means that pods may return to an earlier version.
	Backwards bool
	// check, if set, is called with each pod of the stream.
	check func(op v1alpha1.Op, pod *v1.Pod) error
}

// Follow returns a replica of the daemon's pods, which is checked at the end of the test.
func Follow(t *testing.T, d *Daemon) *Replica {
	t.Helper()
	return FollowWith(t, d, nil)
}

// FollowWith is Follow with a check of each pod in the stream.
func FollowWith(t *testing.T, d *Daemon, check func(op v1alpha1.Op, pod *v1.Pod) error) *Replica {
	t.Helper()
	f := &Replica{
		pods: make(map[string]*v1.Pod), changed: make(chan struct{}), updates: make(map[v1alpha1.Op]int), check: check,
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for u, err := range d.Client.Updates(ctx, client.Options{}) {
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
		if err := f.Err(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// Fail reports that something in the stream is wrong. The lock is held.
func (f *Replica) Fail(format string, args ...any) {
	f.broken = append(f.broken, fmt.Errorf(format, args...))
}

func (f *Replica) take(u *v1alpha1.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case u.Reset:
		f.Fail("the stream was reset: %s", u.Message)
	case u.Op == v1alpha1.OpBookmark || u.Revision == 0:
	case u.Revision < f.revision:
		f.Fail("revision %d after %d", u.Revision, f.revision)
	}
	f.revision = max(f.revision, u.Revision)
	f.updates[u.Op] += len(u.Pods)
	for _, pod := range u.Pods {
		before, known := f.pods[string(pod.UID)]
		switch {
		case u.Op == v1alpha1.OpAdd && known:
			f.Fail("%s was added twice", pod.Name)
		case u.Op != v1alpha1.OpAdd && !known:
			f.Fail("%s of %s, which was not there", u.Op, pod.Name)
		case u.Op == v1alpha1.OpReconcile && before.Generation > pod.Generation && !f.Backwards:
			f.Fail("%s went back in time", pod.Name)
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

// Err returns the first error of the stream.
func (f *Replica) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.broken...)
}

// State returns the pods.
func (f *Replica) State() []*v1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.StateLocked()
}

// StateLocked is state for conditions, which run with the lock held.
func (f *Replica) StateLocked() []*v1.Pod {
	return slices.Collect(maps.Values(f.pods))
}

// Await waits until the condition holds for the pods.
func (f *Replica) Await(t *testing.T, what string, holds func(pods map[string]*v1.Pod) bool) {
	t.Helper()
	deadline := time.After(testutil.Patience)
	for {
		f.mu.Lock()
		ok, changed, state := holds(f.pods), f.changed, f.StateLocked()
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

// Run runs a command of podconfigctl against the daemon.
func (d *Daemon) Run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(Ctl, args...)
	cmd.Env = append(os.Environ(), "PODCONFIGD_SOCKET="+d.Socket)
	data, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(data) + string(exit.Stderr), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data), 0
}

// Counts returns the number of pods for each operation.
func (f *Replica) Counts() map[v1alpha1.Op]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.updates)
}
