package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node with a runtime, whose changes a test makes, and the journal of a daemon with the sources "api" and "file".
type world struct {
	t       *testing.T
	journal *journal.Journal
	find    *lookup.Lookup
	stream  *Stream
	gate    *view.Gate

	subscribers []*subscriber

	mu       sync.Mutex
	present  map[string]pleg.Found
	follower func(pleg.Found)
	// behind is why the runtime is not listed.
	behind error
	// pids has the first processes of containers, and devices what the kubelet assigned to them, by the name of the container.
	pids    map[string]int
	devices map[string]*v1alpha1.ContainerResources
	reads   int
	// slow is how long a reading of handles takes.
	slow time.Duration
	// late is a pod that the source "api" has when the pod of a container is looked up next; nil for none.
	late *v1.Pod
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	alone(t, test)
}

// alone is inWorld for a test beside which no other one runs.
func alone(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, journal: journal.New(journal.Options{Sources: []string{"api", "file"}}), present: make(map[string]pleg.Found),
			pids: make(map[string]int), devices: make(map[string]*v1alpha1.ContainerResources),
		}
		w.journal.SetOwners(ownersOf)
		w.find = lookup.New(lookup.Options{Journal: w.journal, Owners: ownersOf, Retention: 24 * time.Hour, MaxEnded: 1000})
		w.gate = view.NewGate(w.journal, nil)
		w.stream = New(Options{Runtime: w, Journal: w.journal, Lookup: w})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := w.stream.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		}()
		synctest.Wait()
		test(w)
		for _, s := range w.subscribers {
			s.Close()
		}
		cancel()
		<-ended
	})
}

// ownersOf returns the Deployment of a pod, which has its name.
func ownersOf(pod *journal.Pod) []v1alpha1.Owner {
	return []v1alpha1.Owner{{Kind: "Deployment", Name: pod.Object.Name}}
}

func (w *world) Follow(changed func(pleg.Found)) ([]pleg.Found, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.follower = changed
	return slices.Collect(maps.Values(w.present)), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.follower = nil
	}
}

func (w *world) Behind(time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.behind
}

func (w *world) PodOf(recorded *pleg.Found) (*journal.Pod, bool) {
	if late := w.late; late != nil {
		w.late = nil
		w.journal.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: []*v1.Pod{late}})
	}
	return w.find.PodOf(recorded)
}

func (w *world) ResourcesOf(_ *journal.Pod, container string) *v1alpha1.ContainerResources {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.devices[container]
}

func (w *world) AddHandles(_ context.Context, c *v1alpha1.LookupContainer, _ time.Time) (bool, error) {
	if w.slow > 0 {
		<-time.After(w.slow)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	c.PID = w.pids[c.ID]
	return c.PID != 0, nil
}

// set sets the state of a container: "pod/container STATE", where STATE is created, running, exited or removed.
func (w *world) set(text string) {
	w.t.Helper()
	name, state, _ := strings.Cut(text, " ")
	pod, container, _ := strings.Cut(name, "/")
	f := pleg.Found{
		UID: types.UID(pod), Namespace: "default", Name: pod, Started: time.Now(),
		Container: pleg.Container{ID: pod + "-" + container, Name: container, CreatedAt: time.Now()},
	}
	for s := pleg.StateCreated; s <= pleg.StateExited; s++ {
		if s.String() == state {
			f.Container.State = s
		}
	}
	w.mu.Lock()
	if before, known := w.present[f.Container.ID]; known {
		f.Container.CreatedAt, f.Started = before.Container.CreatedAt, before.Started
	}
	w.mu.Unlock()
	if state == "removed" {
		f.Container.State, f.Ended = pleg.StateExited, time.Now()
	}
	w.found(f)
}

// found reports a change of a container.
func (w *world) found(f pleg.Found) {
	w.mu.Lock()
	if w.present[f.Container.ID] = f; !f.Ended.IsZero() {
		delete(w.present, f.Container.ID)
	}
	if w.follower != nil {
		w.follower(f)
	}
	w.mu.Unlock()
	synctest.Wait()
}

func (w *world) deliver(op config.PodOperation, source string, pods ...*v1.Pod) {
	w.journal.Append(config.PodUpdate{Op: op, Source: source, Pods: pods})
	synctest.Wait()
}

// subscriber is a subscriber of the stream.
type subscriber struct {
	*Cursor

	w        *world
	instance string
	revision int64
	// held has what it holds, by ID.
	held map[string]string
}

func (w *world) watch(scope *view.Scope, opts WatchOptions) *subscriber {
	s := &subscriber{Cursor: w.stream.Watch(scope, opts), w: w, held: make(map[string]string)}
	if opts.Since != nil {
		s.revision = *opts.Since
	}
	w.subscribers = append(w.subscribers, s)
	return s
}

// read returns the lines that there are now, as "OP source pod/container state pid", and applies them.
func (s *subscriber) read() (lines []string) {
	s.w.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(s.w.t.Context(), time.Millisecond) // short: virtual time
		updates, err := s.Next(ctx)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				s.w.t.Error(err)
			}
			return lines
		}
		for _, u := range updates {
			lines = append(lines, s.apply(u))
		}
	}
}

func (s *subscriber) apply(u *v1alpha1.ContainerUpdate) string {
	s.w.t.Helper()
	if u.Revision != 0 && u.Instance == s.instance && u.Revision <= s.revision {
		s.w.t.Errorf("revision %d after %d", u.Revision, s.revision)
	}
	s.instance, s.revision = u.Instance, cmp.Or(u.Revision, s.revision)
	line := string(u.Op)
	switch {
	case u.Reset:
		clear(s.held)
		s.revision = 0
		return line + " reset: " + u.Message
	case u.InitialSyncComplete:
		return line + " complete"
	case u.Container == nil:
		return line
	}
	shown := shownContainer(u.Container)
	_, holds := s.held[u.Container.ID]
	if holds != (u.Op != v1alpha1.OpAdd) {
		s.w.t.Errorf("%s %s: the subscriber holds it: %v", line, shown, holds)
	}
	if s.held[u.Container.ID] = shown; u.Op == v1alpha1.OpRemove {
		delete(s.held, u.Container.ID)
	}
	return line + " " + shown
}

func shownContainer(c *v1alpha1.PodContainer) string {
	shown := fmt.Sprintf("%s %s/%s %s", cmp.Or(c.Pod.Source, "-"), c.Pod.Name, c.Name, c.State)
	if c.PID != 0 {
		shown += fmt.Sprint(" ", c.PID)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Pod.Labels)) {
		shown += " " + key + "=" + c.Pod.Labels[key]
	}
	for _, o := range c.Pod.Owners {
		shown += " of " + o.Name
	}
	if r := c.Resources; r != nil {
		shown += fmt.Sprint(" ", r.Devices)
	}
	return shown
}

// expect reads, and compares with the lines, which are separated by "; ".
func (s *subscriber) expect(want string) {
	s.w.t.Helper()
	if got := strings.Join(s.read(), "; "); got != want {
		s.w.t.Errorf("got %s\nwant %s", got, want)
	}
}

// since returns the options to resume from what the subscriber has.
func (s *subscriber) since() WatchOptions {
	opts := s.opts
	opts.Instance, opts.Since = s.instance, new(s.revision)
	return opts
}

func pod(name string, changes ...func(*v1.Pod)) *v1.Pod { return podtest.Pod(name, changes...) }
