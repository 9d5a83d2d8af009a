package journal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/internal/testutil/journaltest"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// durable is a journal with a store.
type durable struct {
	*journal.Journal
	recovered *store.Recovered
	stop      func()
}

// startDurable starts a journal on what the directory has.
func startDurable(t *testing.T, opts store.Options, sources ...string) *durable {
	t.Helper()
	opts.Node, opts.BootID = "node", "boot-1"
	log, recovered, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) == 0 {
		sources = []string{"api", "file"}
	}
	d := &durable{recovered: recovered}
	d.Journal = journal.New(journal.Options{Sources: sources, Store: log, Recovered: &recovered.Recovered})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- log.Run(ctx) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(d.stop)
	return d
}

// settle waits until all that was committed is visible.
func (d *durable) settle(t *testing.T) {
	t.Helper()
	taken := d.Taken()
	for {
		shown, changed, gapEnd := d.Visible()
		if shown >= taken || shown == d.recovered.Revision && taken == gapEnd {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// The start of Run takes no revision if a first set has taken one, also while the set is being
// stored.
func TestRunBeginsAfterAFirstSet(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	before := startDurable(t, opts)
	before.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{journaltest.Pod("a")}})
	before.settle(t)
	before.stop()

	opts.Node, opts.BootID = "node", "boot-1"
	log, recovered, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		_ = log.Run(ctx) // closes the log
	}()
	j := journal.New(journal.Options{Sources: []string{"file"}, Store: log, Recovered: &recovered.Recovered})
	head := j.Taken()
	j.Begin()
	if got := j.Taken(); got != head+1 {
		t.Errorf("without a set, the revision is %d, want %d", got, head+1)
	}

	j = journal.New(journal.Options{Sources: []string{"file"}, Store: log, Recovered: &recovered.Recovered})
	j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{journaltest.Pod("b")}}) // the log does not run
	head = j.Taken()
	j.Begin()
	if got := j.Taken(); got != head {
		t.Errorf("after a set, the revision is %d, want %d", got, head)
	}
}

// A source that is added after all pods were known has no pods until its first set. That is known after a
// restart too, so that no interface waits for it. A source that was there before is waited for.
func TestAnAddedSourceIsKnownAfterARestart(t *testing.T) {
	for _, known := range []bool{true, false} {
		opts := store.Options{Dir: t.TempDir()}
		d := startDurable(t, opts, "file")
		if known {
			d.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{journaltest.Pod("a")}})
		}
		d.HandleSourceChange(t.Context(), config.PodUpdate{Op: config.BOOKMARK, Source: "http", Change: config.SourceAdded})
		for restart := range 3 {
			d.settle(t)
			if err := d.CheckKnown(); (err == nil) != known {
				t.Errorf("known %t, after %d restarts: %v", known, restart, err)
			}
			d.stop()
			d = startDurable(t, opts, "file", "http")
		}
		d.stop()
	}
}

// life is a random life of two sources. Their pods share names, and some are mirror pods.
type life struct {
	random *rand.Rand
	pods   map[string]map[types.UID]*v1.Pod
}

func (l *life) step(d *durable) {
	if l.random.IntN(8) == 0 {
		d.Append(config.PodUpdate{Op: config.SYNC, Source: "file", Pods: []*v1.Pod{journaltest.Pod("a")}})
		s := d.Subscribe("", journal.Operations{config.SYNC: true}, journal.Client{})
		d.Append(config.PodUpdate{Op: config.SYNC, Source: "file", Pods: []*v1.Pod{journaltest.Pod("a"), journaltest.Pod("b")}})
		s.Close()
		return
	}
	source := []string{"api", "file"}[l.random.IntN(2)]
	present := l.pods[source]
	if l.random.IntN(4) == 0 {
		for _, uid := range slices.Sorted(maps.Keys(present)) {
			d.Append(config.PodUpdate{
				Op: config.RECONCILE, Source: source, Pods: []*v1.Pod{present[uid]}, Statuses: []*v1.PodStatus{{Message: fmt.Sprint(l.random.Int())}}, StatusOnly: true,
			})
			return
		}
	}
	removes, adds, updates := journaltest.Update(config.REMOVE), journaltest.Update(config.ADD), journaltest.Update(config.UPDATE)
	for range 1 + l.random.IntN(4) {
		p := journaltest.Pod(fmt.Sprintf("%c=%d", 'a'+rune(l.random.IntN(5)), l.random.Int()))
		p.UID = types.UID(fmt.Sprintf("%s-%s-%d", source, p.Name, l.random.IntN(2)))
		if source == "api" && l.random.IntN(2) == 0 {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		}
		before := present[p.UID]
		switch {
		case before == nil:
			adds.Pods = append(adds.Pods, p)
			present[p.UID] = p
		case l.random.IntN(2) == 0 && !slices.Contains(adds.Pods, before) && !slices.Contains(updates.Pods, before):
			removes.Pods = append(removes.Pods, before)
			delete(present, p.UID)
		default:
			updates.Pods = append(updates.Pods, p)
			present[p.UID] = p
		}
	}
	var set []config.PodUpdate
	for _, u := range []config.PodUpdate{removes, adds, updates} {
		u.Source = source
		for range u.Pods {
			u.Statuses = append(u.Statuses, l.status())
		}
		if len(u.Pods) > 0 {
			set = append(set, u)
		}
	}
	if source == "api" {
		set[len(set)-1].Attributes = map[string]string{"n": fmt.Sprint(l.random.Int())}
	}
	journaltest.AppendSet(d, set...)
}

// status returns a status from the runtime, or nil.
func (l *life) status() *v1.PodStatus {
	if l.random.IntN(2) == 0 {
		return nil
	}
	return &v1.PodStatus{Phase: v1.PodRunning, Message: fmt.Sprint(l.random.Int())}
}

// told is what any subscriber could have got from a journal, without pointers.
type told struct {
	Instance string
	Revision int64
	Pods     []string
	Names    []string
	Sets     []string
}

func tell(t *testing.T, d *durable) told {
	t.Helper()
	describe := func(p *journal.Pod) string {
		if p == nil {
			return "none"
		}
		data, err := p.Object.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		merged, err := p.Merged.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s/%s@%d %x %x %v", p.Source, p.Object.UID, p.Revision, data, merged, p.Status)
	}
	state := d.State()
	all := told{Instance: state.Instance, Revision: state.Revision}
	for _, p := range state.Pods {
		all.Pods = append(all.Pods, describe(p))
	}
	named, _, err := d.Named(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range named {
		all.Names = append(all.Names, describe(p))
	}
	for _, set := range d.Sets() {
		if set.Readied || len(set.Updates) == 1 && !set.Updates[0].Op.IsConfig() {
			continue // not stored
		}
		text := fmt.Sprintf("%s %d-%d %v\n", set.Instance, set.First, set.Revision, set.Time.UnixNano())
		for _, u := range set.Updates {
			text += fmt.Sprintf("%s %s %s %d-%d %v\n", u.Instance, u.Op, u.Source, u.First, u.Revision, u.Mirrors)
			for k := range u.Pods {
				text += describe(u.Before[k]) + " -> " + describe(u.Pods[k]) + "\n"
			}
		}
		for _, changes := range [][]journal.Change{set.Names, set.UIDs} {
			for _, c := range changes {
				text += fmt.Sprintf("%d: %s -> %s\n", c.Revision, describe(c.Before), describe(c.After))
			}
		}
		all.Sets = append(all.Sets, text)
	}
	return all
}

// After a restart, the journal has the instance, the revisions, the state and the ring of
// before, also after several restarts, with names that several sources have.
func TestARestartRestoresWhatSubscribersGot(t *testing.T) {
	for seed := range uint64(20 / testutil.Stride(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			opts := store.Options{Dir: t.TempDir(), SegmentBytes: 2 << 10}
			l := &life{rand.New(rand.NewPCG(seed, 1)), map[string]map[types.UID]*v1.Pod{"api": {}, "file": {}}}
			d := startDurable(t, opts)
			for range 4 {
				for range l.random.IntN(40) {
					l.step(d)
				}
				d.settle(t)
				before := tell(t, d)
				d.stop()
				d = startDurable(t, opts)
				after := tell(t, d)
				if n := len(before.Sets) - len(after.Sets); n > 0 { // older segments may be beyond what is replayed
					before.Sets = before.Sets[n:]
				}
				if !d.recovered.Resumed || !reflect.DeepEqual(before, after) {
					t.Fatalf("before:\n%+v\nafter:\n%+v", before, after)
				}
				l.adopt(d)
			}
		})
	}
}

// adopt takes over the restored objects, as the merge does.
func (l *life) adopt(d *durable) {
	for source := range l.pods {
		clear(l.pods[source])
	}
	for _, p := range d.State().Pods {
		l.pods[p.Source][p.Object.UID] = p.Merged
	}
}

// A set that is not stored yet has revisions, but nobody sees it.
func TestASetIsVisibleOnceItIsStored(t *testing.T) {
	hold := make(chan struct{})
	opts := store.Options{Dir: t.TempDir(), FS: &faultyFS{FS: store.OS, write: func() error { <-hold; return nil }}}
	d := startDurable(t, opts)
	revision := d.Revision()
	changed := d.Subscribe("", nil, journal.Client{})
	defer changed.Close()
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	if d.Revision() != revision || len(d.State().Pods) != 0 || d.ByUID("a") != nil {
		t.Error("a set is visible that is not stored")
	}
	close(hold)
	d.settle(t)
	if d.ByUID("a") == nil {
		t.Error("the set is not visible after it was stored")
	}
}

// A set that could not be stored is shown under another instance, and all subscribers
// start again with it.
func TestASetThatIsNotStoredHasANewInstance(t *testing.T) {
	var broken atomic.Bool
	opts := store.Options{Dir: t.TempDir(), FS: &faultyFS{FS: store.OS, write: func() error {
		if broken.Load() {
			return syscall.ENOSPC
		}
		return nil
	}}}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	d.settle(t)
	before := d.State()
	broken.Store(true)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "b"))
	d.settle(t)
	after := d.State()
	if after.Instance == before.Instance || len(after.Pods) != 2 {
		t.Errorf("instance %s before, %s after, %d pods", before.Instance, after.Instance, len(after.Pods))
	}
	for _, instance := range []string{before.Instance, after.Instance, ""} {
		if err := d.Resumable(instance, before.Revision, nil); err == nil {
			t.Errorf("a subscriber of instance %q resumes where an update was not stored", instance)
		}
	}
	if _, err := d.After(before.Revision, nil, 1); err == nil {
		t.Error("a subscriber goes on where an update was not stored")
	}
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "c"))
	d.settle(t)
	if d.Instance() != after.Instance || d.Resumable(after.Instance, after.Revision, nil) != nil {
		t.Error("the next set began another instance")
	}

	// What was not stored is not there after a restart, and its revisions are not used again.
	last := d.Revision()
	d.stop()
	broken.Store(false)
	d = startDurable(t, opts)
	if d.Instance() != before.Instance || d.Revision() != before.Revision {
		t.Errorf("instance %s revision %d, want %s, %d", d.Instance(), d.Revision(), before.Instance, before.Revision)
	}
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "d"))
	d.settle(t)
	for revision := before.Revision + 1; revision <= last; revision++ {
		if err := d.Resumable("", revision, nil); err == nil {
			t.Errorf("a client resumes from revision %d, which was not stored", revision)
		}
	}
	if err := d.Resumable("", before.Revision, nil); err != nil {
		t.Error(err)
	}
}

// An operation that is not stored was not recorded while the daemon was down.
func TestOperationsThatAreNotStoredHaveAHole(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	d.settle(t)
	revision := d.Revision()
	d.stop()
	d = startDurable(t, opts)
	for _, op := range []config.PodOperation{config.SYNC, config.PLEG, config.HOUSEKEEPING} {
		if err := d.Resumable("", revision, journal.Operations{op: true}); err == nil {
			t.Errorf("%s is resumed across a restart", op)
		}
	}
	if err := d.Resumable("", revision, journal.Operations{config.ADD: true}); err != nil {
		t.Error(err)
	}
}

// The revisions that are reserved include the gap at a start.
func TestReservedRevisionsIncludeTheGap(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	d.settle(t)
	d.stop()
	d = startDurable(t, opts)
	var ceiling int64
	d.ReserveWith(t.Context(), func(revision int64) error { ceiling = revision; return nil })
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "b"))
	d.settle(t)
	if d.Revision() > ceiling {
		t.Errorf("revision %d is above the ceiling %d", d.Revision(), ceiling)
	}
}

// A source is restored until it delivers its first set. One that is not configured any
// more loses its pods.
func TestSourcesAfterARestart(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	gone := journaltest.Update(config.ADD, "gone")
	gone.Source = "http"
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	journaltest.AppendSet(d, gone)
	d.settle(t)
	d.stop()

	d = startDurable(t, opts)
	if got := d.Restored(); !slices.Equal(got, []string{"file"}) {
		t.Errorf("restored: %v", got)
	}
	if unseen := d.Unseen(); !slices.Equal(unseen, []string{"api", "file"}) {
		t.Errorf("unseen: %v", unseen)
	}
	if n := d.Forget("http"); n != 1 {
		t.Errorf("forgot %d pods", n)
	}
	d.settle(t)
	if d.ByUID("gone") != nil || d.ByUID("a") == nil {
		t.Error("the pods of a source that is not configured are still there, or others are not")
	}
	journaltest.AppendSet(d, journaltest.Update(config.ADD))
	d.settle(t)
	if d.Restored() != nil || !slices.Equal(d.Unseen(), []string{"api"}) {
		t.Errorf("restored %v, unseen %v after the source's first set", d.Restored(), d.Unseen())
	}
	d.stop()
	if d = startDurable(t, opts); d.recovered.Sources["http"].Seen {
		t.Error("a forgotten source comes back")
	}
}

// faultyFS calls write before each write to a file.
type faultyFS struct {
	store.FS

	write func() error
}

func (f *faultyFS) Create(name string) (store.Appender, error) {
	file, err := f.FS.Create(name)
	return &faultyFile{file, f.write}, err
}

type faultyFile struct {
	store.Appender

	write func() error
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.write(); err != nil {
		return 0, err
	}
	n, err := f.Appender.Write(p)
	return n, errors.Join(err)
}

// Nobody resumes from a revision of objects before a restart: their changes are not stored.
// Pods go on.
func TestObjectsAfterARestart(t *testing.T) {
	dir := store.Options{Dir: t.TempDir()}
	first := startDurable(t, dir, "file")
	first.Append(journaltest.Update(config.ADD, "x"))
	first.PutNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}})
	first.settle(t)
	before := first.Revision()
	first.stop()
	s := startDurable(t, dir, "file")
	if got, _, err := s.Objects(journal.Namespaces, 0); err != nil || len(got) != 1 || got[0].Object.GetName() != "default" {
		t.Errorf("restored: %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx) // ends with the context
	}()
	defer func() { cancel(); <-ended }()
	s.Await(before + 1)
	if err := s.Resumable("", before, nil); err != nil {
		t.Errorf("pods: %v", err)
	}
	if err := s.ObjectsResumable(before); !isCompacted(err) {
		t.Errorf("objects: %v", err)
	}
	if err := s.ObjectsResumable(s.Revision()); err != nil {
		t.Errorf("objects from the revision after the restart: %v", err)
	}
}

func isCompacted(err error) bool {
	_, ok := errors.AsType[*journal.CompactedError](err)
	return ok
}
