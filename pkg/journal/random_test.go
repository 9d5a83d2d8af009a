package journal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// TestRandomReaders has readers of every kind follow random sets of three sources that
// clash in names and UIDs, at times too slowly, and holds what each is told to what it
// holds.
func TestRandomReaders(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		j := newJournal(Options{Sources: []string{"api", "file", "http"}, MaxUpdates: 1 + r.IntN(30)})
		odd, err := labels.Parse("image in (1, 3, 5)")
		if err != nil {
			t.Fatal(err)
		}
		readers := []*testReader{
			{name: "names", opts: WatchOptions{ByName: true, Behind: Fail}},
			{name: "selected names", opts: WatchOptions{ByName: true, Behind: Fail, Selector: Selector{Labels: odd}}},
			{name: "catching up", opts: WatchOptions{Behind: CatchUp, Selector: Selector{NoMirrorPods: true}}},
			{name: "incremental", opts: WatchOptions{Selector: Selector{Labels: odd}}},
			{name: "snapshots", opts: WatchOptions{Mode: Snapshot, Selector: Selector{Labels: odd}}},
			{name: "snapshots and updates", opts: WatchOptions{Mode: SnapshotAndUpdates, Selector: Selector{Labels: odd}}},
		}
		history := map[int64]string{}
		for range 100 {
			randomSet(r, j)
			history[j.head] = showNamed(t, j, 0)
			for _, reader := range readers {
				if r.IntN(4) == 0 {
					reader.read(t, j)
				}
			}
		}
		for _, reader := range readers {
			reader.read(t, j)
			reader.compare(t, j)
		}
		for revision := j.compacted; revision <= j.head; revision++ {
			if want, known := history[revision]; known && showNamed(t, j, revision) != want {
				t.Errorf("names at %d: %s, want %s", revision-j.first, showNamed(t, j, revision), want)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomSet appends what a source's random set could give.
func randomSet(r *rand.Rand, j *Journal) {
	source := []string{"api", "file", "http"}[r.IntN(3)]
	pods := map[config.PodOperation][]*v1.Pod{}
	touched := map[types.UID]bool{}
	for range 1 + r.IntN(4) {
		uid := types.UID(fmt.Sprint("u", r.IntN(6)))
		if touched[uid] {
			continue
		}
		touched[uid] = true
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint("n", r.IntN(4)), UID: uid, Labels: map[string]string{"image": fmt.Sprint(r.IntN(6))},
		}}
		if source == "api" && r.IntN(2) == 0 {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		}
		op := config.ADD
		if before := j.state[podKey{source, uid}]; before != nil {
			op = []config.PodOperation{config.UPDATE, config.REMOVE, config.DELETE, config.RECONCILE}[r.IntN(4)]
			if op == config.REMOVE {
				p = before.Object
			}
		}
		pods[op] = append(pods[op], p)
	}
	var set []config.PodUpdate
	for _, op := range []config.PodOperation{config.REMOVE, config.ADD, config.UPDATE, config.DELETE, config.RECONCILE} {
		if len(pods[op]) > 0 {
			set = append(set, config.PodUpdate{Op: op, Source: source, Pods: pods[op]})
		}
	}
	appendSet(j, set...)
}

func showNamed(t *testing.T, j *Journal, at int64) string {
	t.Helper()
	pods, _, err := j.Named(at)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(pods))
	for i, p := range pods {
		lines[i] = showPod(p, p.Revision)
	}
	return strings.Join(lines, " ")
}

func showPod(p *Pod, revision int64) string {
	return fmt.Sprintf("%s=%s/%s/%s@%d", p.Object.Name, p.Source, p.Object.UID, p.Object.Labels["image"], revision)
}

// testReader is a reader and what it holds.
type testReader struct {
	name   string
	opts   WatchOptions
	cursor *Cursor
	// told is the last frame.
	told *Frame
	held map[string]string
}

// key is what the reader tells pods apart by.
func (r *testReader) key(p *Pod) string {
	if r.opts.ByName {
		return p.Object.Name
	}
	return fmt.Sprint(p.key())
}

// read takes all that is there.
func (r *testReader) read(t *testing.T, j *Journal) {
	t.Helper()
	for {
		if r.cursor == nil {
			r.cursor, r.told, r.held = j.Watch(r.opts), nil, map[string]string{}
		}
		frames := drain(r.cursor)
		for _, f := range frames {
			r.take(t, f)
		}
		if r.cursor.failed == nil {
			return
		}
		r.cursor.Close() // and it lists again
		r.cursor = nil
	}
}

func (r *testReader) take(t *testing.T, f *Frame) {
	t.Helper()
	last := r.told
	present := f.Time.IsZero()
	if last != nil && !present && f.Op != config.BOOKMARK && last.Op != config.BOOKMARK &&
		(f.Revision < last.Revision || (f.Revision == last.Revision && !last.Continues)) {
		t.Errorf("%s: %v of %d after %v of %d, which does not continue", r.name, f.Op, f.Revision, last.Op, last.Revision)
	}
	r.told = f
	if f.Reset || (f.Op == config.SET && (last == nil || last.Op != config.SET || !last.Continues)) {
		r.held = map[string]string{}
	}
	for _, p := range f.Pods {
		_, held := r.held[r.key(p)]
		revision := f.Revision
		if present && f.Op == config.ADD && r.opts.ByName {
			revision = p.Revision
		}
		switch {
		case f.Op == config.REMOVE && !held, f.Op == config.ADD && held,
			(f.Op == config.UPDATE || f.Op == config.DELETE || f.Op == config.RECONCILE) && !held:
			t.Errorf("%s: %v of %s, which was held: %t", r.name, f.Op, showPod(p, 0), held)
		}
		if f.Op == config.REMOVE {
			delete(r.held, r.key(p))
			continue
		}
		if !r.opts.ByName {
			revision = 0
		}
		r.held[r.key(p)] = showPod(p, revision)
	}
}

// compare holds what the reader has to what is there.
func (r *testReader) compare(t *testing.T, j *Journal) {
	t.Helper()
	want := map[string]string{}
	pods, revision := j.State().Pods, int64(0)
	if r.opts.ByName {
		pods, _, _ = j.Named(0) // the present is never gone
	}
	for _, p := range pods {
		if r.opts.ByName {
			revision = p.Revision
		}
		if r.opts.Selector.Matches(p) {
			want[r.key(p)] = showPod(p, revision)
		}
	}
	if r.opts.Mode == SnapshotAndUpdates { // is not told of what is reconciled
		forget := func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
		if !slices.Equal(forget(r.held), forget(want)) {
			t.Errorf("%s: it holds %v, want %v", r.name, r.held, want)
		}
		return
	}
	if r.opts.Mode == Incremental && !maps.Equal(r.held, want) {
		t.Errorf("%s: it holds\n%v, want\n%v", r.name, r.held, want)
	}
}

// A pod is gone for its UID only once no source has it.
func TestUIDsOfSeveralSources(t *testing.T) {
	j := newJournal(Options{Sources: []string{"file", "http"}})
	of := func(op config.PodOperation, source string) {
		u := update(op, "a="+source)
		u.Source = source
		appendSet(j, u)
	}
	of(config.ADD, "http")
	of(config.ADD, "file")
	of(config.REMOVE, "file")
	if p := j.ByUID("a"); p == nil || p.Source != "http" {
		t.Errorf("after one source removed it: %v", p)
	}
	of(config.REMOVE, "http")
	if p := j.ByUID("a"); p != nil {
		t.Errorf("after both removed it: %v", p)
	}
}
