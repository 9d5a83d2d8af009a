package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// fakeWatcher reports the events of the test, for cases that inotify can't produce on
// request.
type fakeWatcher struct {
	events chan fsnotify.Event
	errors chan error
	addErr error
}

func newFakeWatcher() *fakeWatcher {
	return &fakeWatcher{events: make(chan fsnotify.Event), errors: make(chan error)}
}

func (w *fakeWatcher) Add(string) error              { return w.addErr }
func (w *fakeWatcher) Remove(string) error           { return nil }
func (w *fakeWatcher) Close() error                  { return nil }
func (w *fakeWatcher) Events() <-chan fsnotify.Event { return w.events }
func (w *fakeWatcher) Errors() <-chan error          { return w.errors }

// harness is a running source.
type harness struct {
	t        *testing.T
	source   *Source
	registry *prometheus.Registry
	dir      string
	temp     string
	sets     chan config.SourceSet
}

// run runs a source on a directory until the test ends.
func run(t *testing.T, dir string, opts Options) *harness {
	t.Helper()
	opts.Path = dir
	if opts.Decoder == nil {
		opts.Decoder = manifest.NewDecoder("node1")
	}
	if opts.Period == 0 {
		opts.Period = time.Hour // no relist
	}
	registry := prometheus.NewRegistry()
	opts.Registerer = registry
	h := &harness{t: t, source: New(opts), registry: registry, dir: dir, temp: t.TempDir(), sets: make(chan config.SourceSet)}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.source.Run(ctx, h.sets); !errors.Is(err, stop) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(func() { cancel(stop); running.Wait() })
	return h
}

// metric returns the value of one of the source's metrics.
func (h *harness) metric(name string) float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "podconfigd_file_source_"+name {
			m := family.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	h.t.Fatalf("there is no metric %s", name)
	return 0
}

// prepare writes a manifest to another place, and rename moves it into the directory.
func (h *harness) prepare(name, image string) {
	h.t.Helper()
	data := podtest.Manifest(strings.TrimSuffix(name, ".yaml"), image)
	if err := os.WriteFile(filepath.Join(h.temp, name), []byte(data), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) rename(name string) {
	h.t.Helper()
	if err := os.Rename(filepath.Join(h.temp, name), filepath.Join(h.dir, name)); err != nil {
		h.t.Fatal(err)
	}
}

// put writes a manifest in one step.
func (h *harness) put(name, image string) {
	h.t.Helper()
	h.prepare(name, image)
	h.rename(name)
}

// expect waits for a set of these pods, "name=image".
func (h *harness) expect(want ...string) []*v1.Pod {
	h.t.Helper()
	select {
	case set := <-h.sets:
		var got []string
		for _, p := range set.Pods {
			got = append(got, strings.TrimSuffix(p.Name, "-node1")+"="+p.Spec.Containers[0].Image)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			h.t.Fatalf("got %v, want %v", got, want)
		}
		return set.Pods
	case <-time.After(testutil.Patience):
		h.t.Fatalf("no set for %v, want %v", testutil.Patience, want)
		return nil
	}
}

func TestUnchangedFilesKeepTheirPods(t *testing.T) {
	h := run(t, t.TempDir(), Options{})
	h.expect()
	h.put("a.yaml", "1")
	first := h.expect("a=1")
	h.put("b.yaml", "1")
	second := h.expect("a=1", "b=1")
	if first[0] != second[0] {
		t.Error("a is another pointer, though its file did not change")
	}
	if n := h.metric("decodes_total"); n != 2 {
		t.Errorf("2 files were decoded %v times", n)
	}
}

// If inotify is not available, the source polls, shows it in the status, and returns to
// inotify when possible.
func TestPollingWhereWatchingFails(t *testing.T) {
	for _, test := range []struct {
		name, want string
		open       func() (follow.Watcher, error)
	}{
		{"no instance", "fs.inotify.max_user_instances", func() (follow.Watcher, error) { return nil, syscall.EMFILE }},
		{"no watch", "fs.inotify.max_user_watches", func() (follow.Watcher, error) {
			w := newFakeWatcher()
			w.addErr = syscall.ENOSPC
			return w, nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			open := test.open
			opts := Options{openWatcher: func() (follow.Watcher, error) {
				mu.Lock()
				defer mu.Unlock()
				return open()
			}}
			h := run(t, t.TempDir(), opts)
			h.expect()
			status := h.source.Status().File
			if status.Watch != follow.WatchPolling || !strings.Contains(status.WatchError, test.want) {
				t.Errorf("the status is %+v, want polling and %s", status, test.want)
			}
			h.put("a.yaml", "1")
			h.expect("a=1")
			if n := h.metric("watching"); n != 0 {
				t.Errorf("the metric says that it watches: %v", n)
			}
			mu.Lock()
			open = follow.Inotify
			mu.Unlock()
			h.put("b.yaml", "1")
			h.expect("a=1", "b=1") // found by the poll that enabled it
			if status := h.source.Status().File; status.Watch != follow.WatchInotify || status.WatchError != "" {
				t.Errorf("the status is %+v, want inotify again", status)
			}
			if n := h.metric("watching"); n != 1 {
				t.Errorf("the metric says that it polls: %v", n)
			}
		})
	}
}

// After lost events, the path is listed again.
func TestOverflowListsAgain(t *testing.T) {
	w := newFakeWatcher()
	h := run(t, t.TempDir(), Options{openWatcher: func() (follow.Watcher, error) { return w, nil }})
	h.expect()
	h.put("a.yaml", "1")
	go func() { w.errors <- fsnotify.ErrEventOverflow }()
	h.expect("a=1")
	testutil.Until(t, "the status says one overflow", func() bool { return h.source.Status().File.Overflows == 1 })
	if n := h.metric("watch_overflows_total"); n != 1 {
		t.Errorf("the metric says %v overflows", n)
	}
}

// A watcher that breaks is replaced.
func TestABrokenWatcherIsReplaced(t *testing.T) {
	watchers := make(chan *fakeWatcher, 2)
	opts := Options{openWatcher: func() (follow.Watcher, error) {
		w := newFakeWatcher()
		watchers <- w
		return w, nil
	}}
	h := run(t, t.TempDir(), opts)
	h.expect()
	h.put("a.yaml", "1")
	w := <-watchers
	go func() { w.errors <- errors.New("broken") }()
	h.expect("a=1")
	h.put("b.yaml", "1")
	real, err := filepath.EvalSymlinks(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	(<-watchers).events <- fsnotify.Event{Name: filepath.Join(real, "b.yaml"), Op: fsnotify.Create}
	h.expect("a=1", "b=1")
}

func TestTheRelistFindsUnreportedChanges(t *testing.T) {
	w := newFakeWatcher()
	opts := Options{Period: 50 * time.Millisecond, openWatcher: func() (follow.Watcher, error) { return w, nil }}
	h := run(t, t.TempDir(), opts)
	h.expect()
	h.put("a.yaml", "1")
	h.expect("a=1")
	if err := os.Remove(filepath.Join(h.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	h.expect()
}

// Run ends at once, also if nobody receives the set.
func TestRunEndsWithoutAReceiver(t *testing.T) {
	source := New(Options{Path: t.TempDir(), Decoder: manifest.NewDecoder("n")})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx, make(chan config.SourceSet)) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

// A directory that can't be read at the start is not an empty one.
func TestUnreadableAtTheStartSendsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	file := filepath.Dir(dir) + "/file"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := run(t, filepath.Join(file, "below"), Options{Period: 10 * time.Millisecond}) // ENOTDIR
	deadline := time.After(testutil.Patience)
	for !h.source.Status().Degraded {
		select {
		case set := <-h.sets:
			t.Fatalf("it sent %v", set)
		case <-deadline:
			t.Fatalf("not degraded after %v", testutil.Patience)
		case <-time.After(time.Millisecond):
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h.expect()
}

// A file that is written continuously does not delay the others.
func TestAFileThatIsWrittenContinuously(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	endless, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(endless.Fd(), unix.F_SETLEASE, unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
		t.Skip("leases can't be had here")
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		defer endless.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := endless.WriteString("a line: [\n"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Cleanup(func() { close(stop); writing.Wait() })
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(podtest.Manifest("a", "1")), 0o644); err != nil {
		t.Fatal(err)
	}
	h := run(t, dir, Options{})
	h.expect("a=1")
}

// A file that waits for a UID gets it when it is released, also if another file releases
// it for a name that it can't have.
func TestWaitingForAReleasedUID(t *testing.T) {
	h := run(t, t.TempDir(), Options{})
	h.expect()
	put := func(file, name, uid string) {
		data := strings.Replace(podtest.Manifest(name, "1"), "{name: "+name, "{uid: "+uid+", name: "+name, 1)
		temp := filepath.Join(t.TempDir(), "temp")
		if err := errors.Join(os.WriteFile(temp, []byte(data), 0o644), os.Rename(temp, filepath.Join(h.dir, file))); err != nil {
			t.Fatal(err)
		}
	}
	put("z.yaml", "xx", "u")
	h.expect("xx=1")
	put("b.yaml", "yy", "v")
	h.expect("yy=1", "xx=1")
	put("a.yaml", "ww", "u")
	for deadline := time.After(testutil.Patience); len(h.source.Status().File.Manifests) < 3; {
		select {
		case <-deadline:
			t.Fatal("a.yaml has no verdict")
		case <-time.After(time.Millisecond):
		}
	}
	put("z.yaml", "yy", "u")
	h.expect("ww=1", "yy=1")
}
