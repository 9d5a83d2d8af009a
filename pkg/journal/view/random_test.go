package view

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestRandomSubscribers runs subscribers of every view on random sets of three sources
// with conflicting names and UIDs. Subscribers are too slow at times, or disconnected
// after any frame. The test compares what they have with the journal.
func TestRandomSubscribers(t *testing.T) {
	for seed := range uint64(300 / testutil.Stride(8)) {
		r := rand.New(rand.NewPCG(seed, 7))
		j := newJournal(journal.Options{Sources: []string{"api", "file", "http"}, MaxUpdates: 1 + r.IntN(30)})
		odd := Options{Selector: Selector{Labels: mustLabels("image in (1, 3, 5)")}}
		owned := Options{Selector: Selector{Owner: mustOwner("deployment/web")}}
		owners := map[types.UID]string{}
		j.SetOwners(func(p *journal.Pod) []v1alpha1.Owner {
			return []v1alpha1.Owner{{Kind: "Deployment", Name: owners[p.Object.UID]}}
		})
		subscribers := []*testSubscriber{
			{name: "incremental", open: openStream(StreamOptions{})},
			{name: "incremental, selected", Options: odd, open: openStream(StreamOptions{Options: odd})},
			{name: "snapshots", mode: SnapshotMode, Options: odd, open: openStream(StreamOptions{Mode: SnapshotMode, Options: odd, Ops: allOps()})},
			{name: "snapshots and updates", mode: SnapshotAndUpdatesMode, Options: odd, open: openStream(StreamOptions{Mode: SnapshotAndUpdatesMode, Options: odd, Ops: allOps()})},
			{name: "incremental, owned", Options: owned, open: openStream(StreamOptions{Options: owned, Owners: true})},
			{name: "snapshots, owned", mode: SnapshotMode, Options: owned, open: openStream(StreamOptions{Mode: SnapshotMode, Options: owned, Ops: allOps()})},
			{name: "snapshots and updates, owned", mode: SnapshotAndUpdatesMode, Options: owned, open: openStream(StreamOptions{Mode: SnapshotAndUpdatesMode, Options: owned, Ops: allOps(), Owners: true})},
			{name: "names, owned", view: journal.ByName, Options: owned, open: openNames(owned)},
			{name: "UIDs, owned", view: journal.ByUID, Options: owned, open: func(j *testJournal, _ *int64) *Cursor { return UIDs(j.Journal, owned) }},
			{name: "names", view: journal.ByName, open: openNames(Options{})},
			{name: "names, selected", view: journal.ByName, Options: odd, open: openNames(odd)},
			{name: "UIDs", view: journal.ByUID, Options: Options{Selector: podsAPI}, open: func(j *testJournal, _ *int64) *Cursor { return UIDs(j.Journal, Options{Selector: podsAPI}) }},
		}
		history := map[int64]string{}
		for range 100 {
			if randomSet(r, j, true); r.IntN(3) == 0 {
				for range 1 + r.IntN(3) {
					owners[types.UID(fmt.Sprint("u", r.IntN(8)))] = []string{"", "web", "web", "db"}[r.IntN(4)]
				}
				j.RecordOwners()
			}
			history[j.Revision()] = showNamed(t, j, 0)
			for _, s := range subscribers {
				s.random = r
				if r.IntN(4) == 0 {
					s.read(t, j, 1+r.IntN(6))
				}
				if r.IntN(12) == 0 && s.view != journal.ByUID { // the Pods API can't be resumed
					s.cut()
				}
			}
		}
		for _, s := range subscribers {
			s.random = nil
			s.read(t, j, 1<<20)
			s.compare(t, j)
		}
		for revision, want := range history {
			if revision >= j.Status().Compacted && showNamed(t, j, revision) != want {
				t.Errorf("names at %d: %s, want %s", revision-j.first, showNamed(t, j, revision), want)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

var podsAPI = Selector{NoMirrorPods: true}

func allOps() journal.Operations {
	ops := DefaultOperations(SnapshotMode)
	ops[config.RECONCILE] = true
	return ops
}

func openStream(opts StreamOptions) func(*testJournal, *int64) *Cursor {
	return func(j *testJournal, since *int64) *Cursor {
		opts.Since = since
		return Stream(j.Journal, opts)
	}
}

func openNames(opts Options) func(*testJournal, *int64) *Cursor {
	return func(j *testJournal, since *int64) *Cursor {
		return Names(j.Journal, NamesOptions{Options: opts, Since: since})
	}
}

// randomSet appends the updates of a random set. If twice, it may have a UID twice or
// three times, of which the last stays.
func randomSet(r *rand.Rand, j *testJournal, twice bool) {
	source := []string{"api", "file", "http"}[r.IntN(3)]
	there := map[types.UID]*v1.Pod{}
	for _, p := range j.State().Pods {
		if p.Source == source {
			there[p.Object.UID] = p.Object
		}
	}
	pods := map[config.PodOperation][]*v1.Pod{}
	touched := map[types.UID]bool{}
	for range 1 + r.IntN(6) {
		uid := types.UID(fmt.Sprint("u", r.IntN(8)))
		if touched[uid] {
			continue
		}
		touched[uid] = true
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint("n", r.IntN(4)), UID: uid, Labels: map[string]string{"image": fmt.Sprint(r.IntN(6))},
		}}
		if r.IntN(10) == 0 { // sometimes a pod that needs its own frame
			p.Annotations = map[string]string{"large": strings.Repeat("x", PieceSize)}
		}
		if source == "api" && r.IntN(2) == 0 {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		}
		op := config.ADD
		if before := there[uid]; before != nil {
			op = []config.PodOperation{config.UPDATE, config.REMOVE, config.DELETE, config.RECONCILE}[r.IntN(4)]
			if op == config.REMOVE {
				p = before
			}
		}
		if op == config.ADD && twice && r.IntN(6) == 0 {
			first := p.DeepCopy()
			first.Name, first.Labels = fmt.Sprint("n", r.IntN(4)), map[string]string{"image": fmt.Sprint(r.IntN(6))}
			pods[op] = append(pods[op], first)
			if r.IntN(3) == 0 {
				pods[op] = append(pods[op], first)
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

func showNamed(t *testing.T, j *testJournal, at int64) string {
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

func showPod(p *journal.Pod, revision int64) string {
	return fmt.Sprintf("%s=%s/%s/%s@%d", p.Object.Name, p.Source, p.Object.UID, p.Object.Labels["image"], revision)
}

// testSubscriber is a naive client: it saves each revision that it gets, and nothing
// else, and resumes from it.
type testSubscriber struct {
	Options

	name string
	mode Mode
	view journal.Order
	open func(j *testJournal, since *int64) *Cursor

	// random, if set, disconnects names between two pods.
	random *rand.Rand
	cursor *Cursor
	since  *int64
	last   *Frame
	held   map[string]string
	// added is the time of the last ADD of each: an update may have a UID twice.
	added map[string]time.Time
	// strict means that it was not disconnected within an update, which repeats the first
	// pieces.
	strict bool
}

// key is the subscriber's key of a pod.
func (s *testSubscriber) key(p *journal.Pod) string {
	switch s.view {
	case journal.ByName:
		return p.Object.Name
	case journal.ByUID:
		return string(p.Object.UID)
	}
	return p.Source + "/" + string(p.Object.UID)
}

func (s *testSubscriber) cut() {
	if s.cursor != nil {
		s.cursor.Close()
		s.cursor, s.strict, s.last = nil, false, nil
	}
}

// read reads some of the available batches.
func (s *testSubscriber) read(t *testing.T, j *testJournal, batches int) {
	t.Helper()
	for range batches {
		if s.cursor == nil {
			if s.since == nil {
				s.held, s.strict = map[string]string{}, true
			}
			s.added = map[string]time.Time{}
			s.cursor = s.open(j, s.since)
		}
		changed, err := s.cursor.poll()
		for _, f := range s.cursor.out {
			if !s.take(t, f) {
				break
			}
		}
		if s.cursor == nil {
			continue
		}
		if _, gone := errors.AsType[*journal.CompactedError](err); gone {
			s.cut() // it lists again
			s.since = nil
			continue
		}
		if changed != nil && len(s.cursor.out) == 0 {
			return
		}
	}
}

// take applies a frame, and reports whether it was not disconnected.
func (s *testSubscriber) take(t *testing.T, f *Frame) bool {
	t.Helper()
	if last := s.last; last != nil && last.Continues && !f.Reset && !f.Time.Equal(last.Time) {
		t.Errorf("%s: %v after %v, which continues", s.name, f.Op, last.Op)
	}
	if f.Continues && f.Revision != 0 || f.Reset && f.Revision != 0 {
		t.Errorf("%s: %v has revision %d, from which one can't resume", s.name, f.Op, f.Revision)
	}
	if f.Revision != 0 {
		if s.since != nil && f.Revision < *s.since {
			t.Errorf("%s: %v of %d after %d", s.name, f.Op, f.Revision, *s.since)
		}
		s.since = new(f.Revision)
	}
	if f.Reset || (f.Op == config.SET && (s.last == nil || s.last.Op != config.SET || !s.last.Continues)) {
		s.held, s.strict = map[string]string{}, true
	}
	s.last = f
	for i, p := range f.Pods {
		if s.takePod(t, f, i, p); s.view == journal.ByName && s.random != nil && s.random.IntN(20) == 0 {
			s.cut()
			return false
		}
	}
	return true
}

func (s *testSubscriber) takePod(t *testing.T, f *Frame, i int, p *journal.Pod) {
	t.Helper()
	_, held := s.held[s.key(p)]
	revision := int64(0)
	if s.view == journal.ByName {
		revision = f.Revisions[i]
		if s.since != nil && revision <= *s.since {
			t.Errorf("%s: revision %d after %d", s.name, revision, *s.since)
		}
		s.since = new(revision)
		// A pod that comes because of its owner has the revision of its last change.
		if f.Op != config.REMOVE && revision != p.Revision && (s.Selector.Owner.Empty() || f.Op != config.ADD || revision < p.Revision) {
			t.Errorf("%s: revision %d of %s", s.name, revision, showPod(p, p.Revision))
		}
	}
	switch {
	case !s.strict:
	case f.Op == config.REMOVE && !held, f.Op == config.ADD && held && !s.added[s.key(p)].Equal(f.Time),
		(f.Op == config.UPDATE || f.Op == config.DELETE || f.Op == config.RECONCILE) && !held:
		t.Errorf("%s: %v of %s, which was held: %t", s.name, f.Op, showPod(p, 0), held)
	}
	if f.Op == config.REMOVE {
		delete(s.held, s.key(p))
		return
	}
	if revision != 0 {
		revision = p.Revision
	}
	s.held[s.key(p)] = showPod(p, revision)
	if f.Op == config.ADD {
		s.added[s.key(p)] = f.Time
	}
}

// compare compares the subscriber's state with the journal.
func (s *testSubscriber) compare(t *testing.T, j *testJournal) {
	t.Helper()
	want := map[string]string{}
	snapshot := j.Snapshot(s.view)
	pods, err := snapshot.Pods(0, snapshot.Len)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if s.Selector.Matches(p) {
			revision := int64(0)
			if s.view == journal.ByName {
				revision = p.Revision
			}
			want[s.key(p)] = showPod(p, revision)
		}
	}
	if !maps.Equal(s.held, want) {
		t.Errorf("%s: it holds\n%v, want\n%v", s.name, slices.Sorted(maps.Values(s.held)), slices.Sorted(maps.Values(want)))
	}
}

// A UID is removed only when no source has it.
func TestUIDsOfSeveralSources(t *testing.T) {
	j := newJournal(journal.Options{Sources: []string{"file", "http"}})
	c := UIDs(j.Journal, Options{})
	defer c.Close()
	of := func(op config.PodOperation, source string, want ...string) {
		t.Helper()
		u := update(op, "a="+source)
		u.Source = source
		appendSet(j, u)
		frames, err := drain(c)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range frames {
			for _, p := range f.Pods {
				got = append(got, fmt.Sprintf("%v %s", f.Op, p.Source))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v of %s: got %q, want %q", op, source, got, want)
		}
	}
	of(config.ADD, "http", "ADD http")
	of(config.ADD, "file", "UPDATE file")
	of(config.REMOVE, "file", "UPDATE http")
	if p := j.ByUID("a"); p == nil || p.Source != "http" {
		t.Errorf("after one source removed it: %v", p)
	}
	of(config.REMOVE, "http", "REMOVE http")
	if p := j.ByUID("a"); p != nil {
		t.Errorf("after both removed it: %v", p)
	}
}
