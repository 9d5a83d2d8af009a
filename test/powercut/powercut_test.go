package powercut

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/test/testutil/recovered"
)

// shown is when a revision was shown.
type shown struct {
	revision int64
	at       time.Time
}

// cut is a power cut before the n-th operation of a process.
type cut struct {
	mu      sync.Mutex
	fs      *vfs.MemFS
	at, n   int
	percent int
	random  *rand.Rand
	// after is what is there after the cut. acknowledged is what had been shown by then, and due what had been
	// shown more than a second before.
	after             *vfs.MemFS
	acknowledged, due int64
	shown             []shown
}

func (c *cut) before() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == c.at {
		c.cut()
	}
}

func (c *cut) cut() {
	c.after = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.percent, RNG: c.random})
	for _, s := range c.shown {
		if c.acknowledged = s.revision; time.Since(s.at) > time.Second {
			c.due = s.revision
		}
	}
}

func (c *cut) show(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = append(c.shown, shown{revision, time.Now()})
}

func (c *cut) operations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// world is what happens, with its states by revision.
type world struct {
	random   *rand.Rand
	revision int64
	pods     map[types.UID]*journal.Pod
	states   map[int64]string
}

func (w *world) note() { w.states[w.revision] = describe(w.pods) }

// describe tells which pods there are, in which version.
func describe(pods map[types.UID]*journal.Pod) string {
	versions := make(map[types.UID]int64)
	for uid, p := range pods {
		versions[uid] = p.Revision
	}
	return fmt.Sprint(versions)
}

// begin takes what was recovered, and returns it as a table.
func (w *world) begin(r *store.Recovered) *journal.Table {
	w.revision, w.pods = r.Revision, contents(r)
	w.note()
	table := recovered.Table(w.revision, maps.Values(w.pods))
	w.revision = r.Reserved // no state: the next set is above it
	return table
}

// contents returns the pods at the end of what was recovered.
func contents(r *store.Recovered) map[types.UID]*journal.Pod {
	pods := make(map[types.UID]*journal.Pod)
	for p := range r.Base.Pods() {
		pods[p.Object.UID] = p
	}
	for _, set := range r.Sets {
		for _, u := range set.Updates {
			for _, p := range u.Pods {
				if pods[p.Object.UID] = p; u.Op == config.REMOVE {
					delete(pods, p.Object.UID)
				}
			}
		}
	}
	return pods
}

func (w *world) set() *journal.Set {
	set := &journal.Set{First: w.revision + 1, Time: time.Now()}
	u := &journal.Update{First: w.revision + 1, Op: config.UPDATE, Source: "api"}
	if w.random.IntN(4) == 0 {
		u.Op = config.REMOVE
	}
	for range 1 + w.random.IntN(3) {
		w.revision++
		name := fmt.Sprintf("pod-%d", w.random.IntN(10))
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		p.Spec.NodeName = strings.Repeat("x", w.random.IntN(2000))
		u.Pods = append(u.Pods, journal.NewStored("api", p, nil, w.revision, nil))
		if u.Op == config.REMOVE {
			delete(w.pods, p.UID)
		} else {
			w.pods[p.UID] = u.Pods[len(u.Pods)-1]
		}
	}
	u.Revision, set.Revision = w.revision, w.revision
	set.Updates, set.After = []*journal.Update{u}, recovered.Table(w.revision, maps.Values(w.pods))
	w.note()
	return set
}

func options(fs *vfs.MemFS, before func(), boot int) store.Options {
	return store.Options{
		Dir: "state", Node: "node", FS: adapter{fs, before}, BootID: fmt.Sprint(boot),
		SegmentBytes: 16 << 10, MaxBytes: 100 << 10,
	}
}

// run runs a process on the file system: it appends sets, then stops cleanly.
func run(t *testing.T, opts store.Options, w *world, sets int, shown func(int64)) *store.Recovered {
	t.Helper()
	log, recovered, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	log.Begin(w.begin(recovered))
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	done := make(chan error)
	go func() { done <- log.Run(ctx) }()
	for range sets {
		set := w.set()
		written := make(chan journal.Commit)
		log.Append(set, func(c journal.Commit) {
			shown(set.Revision)
			written <- c
		})
		if c := <-written; !c.Stored || c.Instance != recovered.Instance {
			t.Fatalf("%+v", c)
		}
		if w.random.IntN(10) == 0 {
			<-time.After(time.Duration(w.random.IntN(2000)) * time.Millisecond)
		}
	}
	stop()
	<-done
	return recovered
}

// TestPowerCuts cuts the power at random points. What comes back is a state that was
// there, not older than a clean stop, or than a second; and if anything that was shown is lost, the instance
// is new, and begins above all that was shown.
func TestPowerCuts(t *testing.T) {
	cuts := 1000
	if testing.Short() {
		cuts = 200
	}
	lost, kept, resumed := 0, 0, 0
	for seed := range cuts {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(seed), 1))
				percent := []int{0, 20, 50, 80, 100}[seed%5]
				// How many operations there are is known from a run without a cut.
				ops := live(t, uint64(seed), &cut{})
				c := &cut{at: 1 + random.IntN(ops), percent: percent, random: random}
				w, first := cutLive(t, uint64(seed), c)
				if c.after == nil { // it made fewer operations this time
					c.at = 0
					c.cut()
				}
				again, problem := reopen(t, c.after, 3)
				switch {
				case again.Resumed && (again.Instance != first.Instance || again.Revision < c.acknowledged):
					t.Fatalf("%d%% at operation %d of %d: resumed at %d, %d was shown: %s", percent, c.at, ops, again.Revision, c.acknowledged, problem)
				case again.Resumed:
					resumed++
				case again.Revision <= c.acknowledged:
					t.Fatalf("%d%% at operation %d of %d: a new instance begins at %d, %d was shown", percent, c.at, ops, again.Revision, c.acknowledged)
				}
				state, newest := describe(contents(again)), int64(-1)
				for revision, was := range w.states {
					if was == state {
						newest = max(newest, revision)
					}
				}
				switch {
				case newest < 0:
					t.Fatalf("%d%% at operation %d of %d: a state that never was: %s", percent, c.at, ops, problem)
				case newest < c.due:
					t.Fatalf("%d%% at operation %d of %d: the state is that of %d, and %d was shown more than a second ago: %s",
						percent, c.at, ops, newest, c.due, problem)
				case newest < c.acknowledged:
					lost++
				default:
					kept++
				}
				for r, err := range store.History(adapter{c.after, func() {}}, "state", store.HistoryOptions{}) {
					if err != nil {
						t.Fatalf("history: %v after %+v", err, r)
					}
				}
			})
		})
	}
	t.Logf("%d cuts: resumed %d, lost something %d, kept all %d", cuts, resumed, lost, kept)
	if lost == 0 || kept == 0 || resumed == 0 || resumed == cuts {
		t.Error("the cuts are all of one kind")
	}
}

// live runs two processes, the second after a boot, and returns how many operations the
// second one made.
func live(t *testing.T, seed uint64, c *cut) int {
	t.Helper()
	_, _ = cutLive(t, seed, c)
	return c.operations()
}

func cutLive(t *testing.T, seed uint64, c *cut) (*world, *store.Recovered) {
	t.Helper()
	c.fs = vfs.NewCrashableMem()
	w := &world{random: rand.New(rand.NewPCG(seed, 2)), states: make(map[int64]string)}
	run(t, options(c.fs, func() {}, 1), w, 20, c.show)
	w.states = make(map[int64]string) // it stopped cleanly: none of its states may come back but the last
	return w, run(t, options(c.fs, c.before, 2), w, 100, c.show)
}

// reopen opens what a cut left, after a boot, and goes on from there.
func reopen(t *testing.T, fs *vfs.MemFS, boot int) (*store.Recovered, string) {
	t.Helper()
	w := &world{random: rand.New(rand.NewPCG(1, 3)), states: make(map[int64]string)}
	recovered := run(t, options(fs, func() {}, boot), w, 5, func(int64) {})
	next := run(t, options(fs, func() {}, boot+1), w, 5, func(int64) {})
	if !next.Resumed || next.Instance != recovered.Instance {
		t.Fatalf("the process after: %+v", next)
	}
	return recovered, problems(recovered)
}

func problems(r *store.Recovered) string {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s: %v; ", path.Base(p.File), p.Err)
	}
	return b.String() + r.Reason
}
