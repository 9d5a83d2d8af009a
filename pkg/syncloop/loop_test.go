package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a handler that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
	syncs map[types.UID][]time.Time
	// unseen are the sources without an update.
	unseen sets.Set[string]
	// kinds are the kinds of all sources.
	kinds []string
}

func newRecorder(sources ...string) *recorder {
	r := &recorder{syncs: map[types.UID][]time.Time{}, unseen: sets.New(sources...)}
	for _, source := range sources {
		r.kinds = append(r.kinds, config.SourceKind(source))
	}
	return r
}

// AllReady reports whether every source has had an update.
func (r *recorder) AllReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unseen) == 0
}

// KindReady reports whether the recorder waits for no source of the kind, and had one.
func (r *recorder) KindReady(kind string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for source := range r.unseen {
		if config.SourceKind(source) == kind {
			return false
		}
	}
	return slices.Contains(r.kinds, kind)
}

func (r *recorder) note(method string, u config.PodUpdate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unseen.Delete(u.Source)
	r.calls = append(r.calls, fmt.Sprintf("%s %s %s", method, u.Op, u.Pods[0].Name))
}

func (r *recorder) HandlePodAdditions(_ context.Context, u config.PodUpdate) { r.note("additions", u) }
func (r *recorder) HandlePodUpdates(_ context.Context, u config.PodUpdate)   { r.note("updates", u) }
func (r *recorder) HandlePodRemoves(_ context.Context, u config.PodUpdate)   { r.note("removes", u) }
func (r *recorder) HandlePodReconcile(_ context.Context, u config.PodUpdate) { r.note("reconcile", u) }

func (r *recorder) HandleSourceChange(_ context.Context, u config.PodUpdate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.Change == config.SourceAdded {
		r.unseen.Insert(u.Source)
	} else {
		r.unseen.Delete(u.Source)
	}
	r.calls = append(r.calls, fmt.Sprintf("source %s %s %d", u.Source, u.Op, len(u.Pods)))
}

func (r *recorder) HandlePodSyncs(_ context.Context, pods []*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pods {
		r.syncs[p.UID] = append(r.syncs[p.UID], time.Now())
	}
}

func (r *recorder) HandlePodLifecycleEvent(_ context.Context, pod *v1.Pod, e *pleg.PodLifecycleEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("event %s %s", e.Type, pod.UID))
}

func (r *recorder) HandlePodOrphans(_ context.Context, pods []*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := "orphans"
	for _, p := range pods {
		line += " " + p.Name
	}
	r.calls = append(r.calls, line)
}

// events is a generator with the events and pods of the test.
type events struct {
	events chan *pleg.PodLifecycleEvent
	pods   atomic.Pointer[[]*pleg.Pod]
}

func (e *events) Watch() <-chan *pleg.PodLifecycleEvent { return e.events }
func (e *events) Healthy() (bool, error)                { return true, nil }

// Pod returns a pod of has.
func (e *events) Pod(uid types.UID) (*pleg.Pod, bool) {
	pods := e.pods.Load()
	if pods == nil {
		return nil, false
	}
	for _, p := range *pods {
		if p.UID == uid {
			return p, true
		}
	}
	return nil, true
}

func (e *events) Pods() ([]*pleg.Pod, bool) {
	pods := e.pods.Load()
	if pods == nil {
		return nil, false
	}
	return *pods, true
}

// has sets the pods of the runtime.
func (e *events) has(names ...string) {
	pods := make([]*pleg.Pod, len(names))
	for i, name := range names {
		pods[i] = &pleg.Pod{UID: types.UID(name), Name: name}
	}
	e.pods.Store(&pods)
}

// harness is a running loop.
type harness struct {
	*recorder
	loop    *Loop
	updates chan config.PodUpdate
	events  *events
	done    chan error
	cancel  context.CancelFunc
}

// run runs a loop inside a synctest bubble until the test ends.
func run(t *testing.T, sources ...string) *harness {
	t.Helper()
	h := &harness{
		recorder: newRecorder(sources...), updates: make(chan config.PodUpdate), events: &events{events: make(chan *pleg.PodLifecycleEvent)}, done: make(chan error, 1),
	}
	h.loop = New(Options{Handler: h.recorder, SourcesReady: h.recorder, PLEG: h.events})
	ctx, cancel := context.WithCancel(t.Context())
	h.cancel = cancel
	go func() { h.done <- h.loop.Run(ctx, h.updates) }()
	return h
}

func (h *harness) stop(t *testing.T) {
	t.Helper()
	h.cancel()
	if err := <-h.done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

func (h *harness) send(op config.PodOperation, source string, names ...string) {
	u := config.PodUpdate{Op: op, Source: source}
	for _, name := range names {
		u.Pods = append(u.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}})
	}
	h.updates <- u
	synctest.Wait()
}

func TestUpdatesGoToTheirHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		for _, op := range []config.PodOperation{
			config.ADD, config.UPDATE, config.DELETE, config.RECONCILE, config.REMOVE, config.SET,
		} {
			h.send(op, "file", "a")
		}
		h.stop(t)
		want := []string{"additions ADD a", "updates UPDATE a", "updates DELETE a", "reconcile RECONCILE a", "removes REMOVE a"}
		if diff := cmp.Diff(want, h.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A pod in the runtime is an orphan when the sources that can have it are seen: those of the kind that its sandbox names, or all
// of them.
func TestOrphansWaitForTheirSources(t *testing.T) {
	all := []*pleg.Pod{
		{UID: "of-file", Name: "of-file", Source: "file"}, {UID: "of-http", Name: "of-http", Source: "http"},
		{UID: "of-api", Name: "of-api", Source: "api"}, {UID: "of-nobody", Name: "of-nobody"}, {UID: "other", Name: "other", Source: "other"},
	}
	inRuntime := append(slices.Clone(all), &pleg.Pod{UID: "without-a-name"}) // never listed: nobody can say what it is
	for name, test := range map[string]struct {
		sources, seen []string
		want          string
	}{
		"none of two":                  {[]string{"file", "api"}, nil, ""},
		"file, and the apiserver down": {[]string{"file", "api"}, []string{"file"}, "orphans of-file"},
		"api, and the path hangs":      {[]string{"file", "api"}, []string{"api"}, "orphans of-api"},
		"one of two of a kind":         {[]string{"file", "file:x", "api"}, []string{"file"}, ""},
		"both of a kind":               {[]string{"file", "file:x", "api"}, []string{"file", "file:x"}, "orphans of-file"},
		"all":                          {[]string{"file", "api"}, []string{"file", "api"}, "orphans of-file of-http of-api of-nobody other"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := run(t, test.sources...)
				h.events.pods.Store(&inRuntime)
				for _, source := range test.seen {
					h.send(config.ADD, source, "pod-of-"+source)
				}
				h.mu.Lock()
				h.calls = nil
				h.mu.Unlock()
				pass(3 * housekeepingPeriod)
				n := max(0, len(strings.Fields(test.want))-1)
				if got := h.loop.Orphans(); got != (Orphans{Pods: n, Waiting: len(all) - n}) {
					t.Errorf("got %+v, want %d orphans", got, n)
				}
				if test.want == "" {
					h.expect(t)
				} else {
					h.expect(t, test.want)
				}
				h.stop(t)
			})
		})
	}
}

func TestPLEGEventsSyncTheirPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		h.send(config.ADD, "file", "a")
		for _, e := range []*pleg.PodLifecycleEvent{
			{ID: "a", Type: pleg.ContainerStarted}, {ID: "a", Type: pleg.ContainerDied},
			{ID: "a", Type: pleg.ContainerRemoved}, {ID: "unknown", Type: pleg.ContainerDied},
		} {
			h.events.events <- e
		}
		synctest.Wait()
		want := []string{
			"additions ADD a", "event ContainerStarted a", "event ContainerDied a", "event ContainerRemoved a", "event ContainerDied unknown",
		}
		if diff := cmp.Diff(want, h.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := len(h.syncs["a"]); n != 2 || len(h.syncs) != 1 {
			t.Errorf("a was synced %d times and %d pods in all; want 2 of a alone", n, len(h.syncs))
		}
		h.stop(t)
	})
}

func TestEachPodIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		start := time.Now()
		h.send(config.ADD, "file", "a", "b")
		h.send(config.ADD, "file", "gone")
		h.send(config.REMOVE, "file", "gone")
		const times = 100
		time.Sleep(times * DefaultSyncFrequency) //nolint:forbidigo // virtual time
		h.stop(t)
		for _, uid := range []types.UID{"a", "b"} {
			last := start
			for _, at := range h.syncs[uid] {
				if wait := at.Sub(last); wait < DefaultSyncFrequency || wait > 3*DefaultSyncFrequency/2+syncPeriod {
					t.Fatalf("%s was offered after %v", uid, wait)
				}
				last = at
			}
			if n := len(h.syncs[uid]); n < times*2/3 || n > times {
				t.Errorf("%s was offered %d times in %d periods", uid, n, times)
			}
		}
		if len(h.syncs["gone"]) > 0 {
			t.Error("a removed pod was offered")
		}
	})
}

// A pod of two sources is still synced after one of them removes it.
func TestAPodOfTwoSourcesIsSyncedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file", "http")
		h.send(config.ADD, "file", "a")
		h.send(config.ADD, "http", "a")
		h.send(config.REMOVE, "file", "a")
		pass(2 * DefaultSyncFrequency)
		h.stop(t)
		if len(h.syncs["a"]) == 0 {
			t.Error("it was not offered")
		}
	})
}

func TestTheLoopShowsThatItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		if !h.loop.LastActive().IsZero() {
			t.Error("active before the first iteration")
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		if idle := time.Since(h.loop.LastActive()); idle > syncPeriod {
			t.Errorf("last active %v ago", idle)
		}
		h.stop(t)
	})
}

// A clock that is set neither makes the loop look idle, nor hides that it is: the time of its last
// iteration has a reading of the monotonic clock. In virtual time, there is none.
func TestTheLoopIsNotMisledByTheClock(t *testing.T) {
	h := run(t, "file")
	for range 2 { // the second is taken after the first iteration has ended
		h.updates <- config.PodUpdate{Op: config.BOOKMARK, Source: "file", Change: config.SourceAdded}
	}
	if at := h.loop.LastActive(); !strings.Contains(at.String(), "m=") {
		t.Errorf("last active at %v", at)
	}
	h.stop(t)
}

func TestRunEndsWithTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		close(h.updates)
		if err := <-h.done; !errors.Is(err, ErrUpdatesClosed) {
			t.Errorf("Run returned %v", err)
		}
		h.cancel()
	})
}
