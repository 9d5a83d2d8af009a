package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/pkg/config"
)

func TestAStreamBeginsWithThePresentState(t *testing.T) {
	j := newJournal(Options{Sources: []string{"api", "file"}})
	early := j.Watch(WatchOptions{})
	expect(t, early, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "b", "a"))
	api := update(config.ADD, "c")
	api.Source = "api"
	appendSet(j, api)
	expect(t, early, "1 ADD b a", "2 ADD c", "2 BOOKMARK ready")
	expect(t, j.Watch(WatchOptions{}), "2 ADD c", "2 ADD a b", "2 BOOKMARK synced ready")
}

func TestOneSetBecomesVisibleAtOnce(t *testing.T) {
	j := newJournal(Options{})
	c := j.Watch(WatchOptions{})
	expect(t, c, "0 BOOKMARK synced")
	u := update(config.ADD, "a")
	u.More = true
	j.Append(u)
	expect(t, c)
	j.Append(update(config.RECONCILE))
	expect(t, c, "1 ADD a", "2 RECONCILE", "2 BOOKMARK ready")
}

// changes is a series of sets with every operation in it.
func changes(j *Journal) {
	appendSet(j, update(config.ADD, "a=1", "b=1"))
	appendSet(j, update(config.REMOVE, "b"), update(config.ADD, "c=1"), update(config.UPDATE, "a=2"))
	appendSet(j, update(config.DELETE, "a=3"), update(config.RECONCILE, "c=2"))
	appendSet(j, update(config.RECONCILE, "c=3"))
	appendSet(j, update(config.REMOVE, "a"))
}

func TestModes(t *testing.T) {
	for _, test := range []struct {
		mode Mode
		want []string
	}{
		{Incremental, []string{
			"1 ADD a=1 b=1", "1 BOOKMARK ready", "2 REMOVE b=1", "3 ADD c=1", "4 UPDATE a=2",
			"5 DELETE a=3", "6 RECONCILE c=2", "7 RECONCILE c=3", "8 REMOVE a=3",
		}},
		{SnapshotAndUpdates, []string{
			"1 SET a=1 b=1", "1 BOOKMARK ready", "3 SET a=2 c=1", "4 UPDATE a=2", "5 DELETE a=3", "8 SET c=3",
		}},
		{Snapshot, []string{
			"1 SET a=1 b=1", "1 BOOKMARK ready", "4 SET a=2 c=1", "5 SET a=3 c=2", "8 SET c=3",
		}},
	} {
		t.Run(string(test.mode), func(t *testing.T) {
			j := newJournal(Options{})
			c := j.Watch(WatchOptions{Mode: test.mode})
			expect(t, c, "0 BOOKMARK synced")
			changes(j)
			expect(t, c, test.want...)
		})
	}
}

// The first SET is not sent before any source was seen: it would say that there is
// nothing.
func TestNoSnapshotBeforeASourceIsSeen(t *testing.T) {
	j := newJournal(Options{Sources: []string{"api", "file"}})
	expect(t, j.Watch(WatchOptions{Mode: Snapshot}), "0 BOOKMARK synced")
	appendSet(j, update(config.ADD))
	expect(t, j.Watch(WatchOptions{Mode: Snapshot}), "1 SET", "1 BOOKMARK synced")
}

// A reader that is cut off after any frame, and resumes, is given what it would
// have been given, each revision once.
func TestResumeAfterEveryFrame(t *testing.T) {
	for _, mode := range []Mode{Incremental, SnapshotAndUpdates, Snapshot} {
		for _, selector := range []Selector{{}, {Labels: mustLabels("image in (1,3)")}} {
			t.Run(fmt.Sprintf("%s/%v", mode, selector.Labels), func(t *testing.T) {
				j := newJournal(Options{})
				whole := j.Watch(WatchOptions{Mode: mode, Selector: selector})
				frames := drain(whole)
				changes(j)
				changes(j)
				frames = append(frames, drain(whole)...)
				for cut := range frames {
					if frames[cut].Continues {
						continue // a reader hands on whole updates only
					}
					since := frames[cut].Revision
					resumed := j.Watch(WatchOptions{Mode: mode, Selector: selector, Since: &since, Instance: j.instance})
					rest := cut + 1
					for rest < len(frames) && frames[rest].Revision == since {
						rest++ // the bookmark at the same revision
					}
					if got, want := show(j, drain(resumed)), show(j, frames[rest:]); got != want {
						t.Errorf("after %q: got\n%s\nwant\n%s", showFrame(j, frames[cut]), got, want)
					}
				}
			})
		}
	}
}

func TestResumeThatCannotBe(t *testing.T) {
	j := newJournal(Options{MaxUpdates: 2})
	changes(j)
	revision := func(n int64) *int64 { n += j.first; return &n }
	for _, test := range []struct {
		name   string
		opts   WatchOptions
		reason string
	}{
		{"compacted", WatchOptions{Since: revision(3)}, "is compacted"},
		{"of another instance", WatchOptions{Since: revision(8), Instance: "other"}, "is of instance other"},
		{"of an instance before", WatchOptions{Since: revision(-1000)}, "is compacted"},
		{"not there yet", WatchOptions{Since: revision(9)}, "is not one of this instance"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := j.Watch(test.opts)
			frames := drain(c)
			if got, want := show(j, frames), "8 BOOKMARK reset ready\n8 ADD c=3\n8 BOOKMARK synced ready"; got != want {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(frames[0].Message, test.reason) {
				t.Errorf("the reset says %q, want %q in it", frames[0].Message, test.reason)
			}
		})
	}
	expect(t, j.Watch(WatchOptions{Since: revision(6)}), "7 RECONCILE c=3", "8 REMOVE a=3")
	expect(t, j.Watch(WatchOptions{Since: revision(8)}))
}

func TestAReaderThatFallsBehindIsReset(t *testing.T) {
	j := newJournal(Options{MaxUpdates: 4})
	c := j.Watch(WatchOptions{})
	expect(t, c, "0 BOOKMARK synced")
	for i := range 4 {
		appendSet(j, update(config.ADD, fmt.Sprintf("p%d", i)))
	}
	expect(t, c, "1 ADD p0", "1 BOOKMARK ready", "2 ADD p1", "3 ADD p2", "4 ADD p3")
	for i := range 5 {
		appendSet(j, update(config.REMOVE, fmt.Sprintf("p%d", i)))
	}
	expect(t, c, "9 BOOKMARK reset ready", "9 BOOKMARK synced ready")
	appendSet(j, update(config.ADD, "q"))
	expect(t, c, "10 ADD q")
	if got := j.Status().Subscribers[0].Resets; got != 1 {
		t.Errorf("status says %d resets, want 1", got)
	}
}

func TestTheRingIsBoundedByBytes(t *testing.T) {
	size := int64(newPod("file", pod("p=1"), 1, newJournal(Options{}).metrics).size) * memoryFactor
	j := newJournal(Options{MaxBytes: 3 * size})
	for i := range 10 {
		appendSet(j, update(config.UPDATE, fmt.Sprintf("p=%d", i)))
	}
	if n := j.ring.len(); n != 3 || j.bytes != 3*size || j.compacted != j.head-3 {
		t.Errorf("%d updates of %d bytes, compacted up to %d of %d; want 3 of %d bytes", n, j.bytes, j.compacted, j.head, 3*size)
	}
	appendSet(j, update(config.ADD, "a", "b", "c", "d", "e"))
	if n := j.ring.len(); n != 1 {
		t.Errorf("%d updates, want the newest alone, though it is too large", n)
	}
}

func mustLabels(s string) labels.Selector {
	selector, err := labels.Parse(s)
	if err != nil {
		panic(err)
	}
	return selector
}

func TestSelectionIsOfPods(t *testing.T) {
	j := newJournal(Options{})
	ones := j.Watch(WatchOptions{Selector: Selector{Labels: mustLabels("image=1")}})
	expect(t, ones, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "a=1", "b=2"))
	expect(t, ones, "1 ADD a=1", "1 BOOKMARK ready")
	appendSet(j, update(config.UPDATE, "a=2", "b=1"))
	expect(t, ones, "2 REMOVE a=1 continues", "2 ADD b=1")
	appendSet(j, update(config.UPDATE, "a=3"))
	expect(t, ones)
	appendSet(j, update(config.REMOVE, "a", "b"))
	expect(t, ones, "4 REMOVE b=1")

	appendSet(j, update(config.ADD, "x", "y"))
	expect(t, j.Watch(WatchOptions{Selector: Selector{Fields: fields.OneTermEqualSelector("metadata.name", "y")}}),
		"5 ADD y", "5 BOOKMARK synced ready")
	expect(t, j.Watch(WatchOptions{Selector: Selector{Source: "api"}}), "5 BOOKMARK synced ready")
	expect(t, j.Watch(WatchOptions{Selector: Selector{Namespace: "other"}}), "5 BOOKMARK synced ready")
}

func TestMirrorPodsCanBeLeftOut(t *testing.T) {
	j := newJournal(Options{})
	without := j.Watch(WatchOptions{Selector: Selector{NoMirrorPods: true}})
	with := j.Watch(WatchOptions{})
	expect(t, without, "0 BOOKMARK synced")
	expect(t, with, "0 BOOKMARK synced")
	both := update(config.ADD, "mirror", "own")
	both.Pods[0].Annotations[v1.MirrorPodAnnotationKey] = "hash"
	appendSet(j, both)
	expect(t, without, "1 ADD own", "1 BOOKMARK ready")
	expect(t, with, "1 ADD mirror own", "1 BOOKMARK ready")
	appendSet(j, update(config.REMOVE, "mirror"))
	expect(t, without)
	expect(t, with, "2 REMOVE mirror")
}

func TestASnapshotReaderIsToldOnlyOfItsPods(t *testing.T) {
	j := newJournal(Options{})
	c := j.Watch(WatchOptions{Mode: Snapshot, Selector: Selector{Labels: mustLabels("image=1")}})
	appendSet(j, update(config.ADD, "a=1", "b=2"))
	expect(t, c, "1 SET a=1", "1 BOOKMARK synced ready")
	appendSet(j, update(config.UPDATE, "b=3"))
	expect(t, c)
	appendSet(j, update(config.UPDATE, "b=1"))
	expect(t, c, "3 SET a=1 b=1")
}

// A pod comes to be selected by whatever changes it, and is told once.
func TestASnapshotReaderSeesWhatComesToMatch(t *testing.T) {
	for _, mode := range []Mode{Snapshot, SnapshotAndUpdates} {
		j := newJournal(Options{})
		c := j.Watch(WatchOptions{Mode: mode, Selector: Selector{Labels: mustLabels("image=1")}})
		appendSet(j, update(config.ADD, "a=2", "b=1"))
		expect(t, c, "1 SET b=1", "1 BOOKMARK synced ready")
		appendSet(j, update(config.RECONCILE, "a=1"))
		expect(t, c, "2 SET a=1 b=1")
		appendSet(j, update(config.UPDATE, "a=2"))
		expect(t, c, "3 SET b=1")
		appendSet(j, update(config.REMOVE, "b"), update(config.UPDATE, "a=1"))
		expect(t, c, "5 SET a=1")
	}
}

// What repeats pods that are there takes nothing of the ring's bytes.
func TestSYNCTakesNoBytes(t *testing.T) {
	j := newJournal(Options{})
	a := update(config.ADD, "a")
	appendSet(j, a)
	c := j.Watch(WatchOptions{Ops: Operations{config.SYNC: true}})
	defer c.Close()
	before := j.bytes
	j.HandlePodSyncs(t.Context(), a.Pods)
	if j.head != j.first+2 || j.bytes != before {
		t.Errorf("%d bytes for a SYNC", j.bytes-before)
	}
}

func TestOperationsThatAreAskedFor(t *testing.T) {
	j := newJournal(Options{})
	appendSet(j, update(config.ADD, "a"))
	plain := j.Watch(WatchOptions{})
	expect(t, plain, "1 ADD a", "1 BOOKMARK synced ready")
	j.HandlePodSyncs(t.Context(), update(config.SYNC, "a").Pods)
	if j.head != j.first+1 {
		t.Error("a SYNC was taken though nobody asked for it")
	}
	syncs := j.Watch(WatchOptions{Ops: Operations{config.SYNC: true}})
	expect(t, syncs, "1 BOOKMARK synced ready")
	j.HandlePodSyncs(t.Context(), update(config.SYNC, "a").Pods)
	expect(t, syncs, "2 SYNC a")
	expect(t, plain)
	syncs.Close()
	if n := len(j.Status().Subscribers); n != 1 {
		t.Errorf("%d subscribers after one of two closed", n)
	}
}

// A reader whose selection hides everything is told how far the stream is.
func TestProgress(t *testing.T) {
	j := newJournal(Options{})
	c := j.Watch(WatchOptions{Selector: Selector{Namespace: "other"}})
	all := j.Watch(WatchOptions{})
	expect(t, c, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "a"))
	appendSet(j, update(config.ADD, "b"))
	expect(t, c, "1 BOOKMARK ready")
	drain(all)
	appendSet(j, update(config.ADD, "c"))
	expect(t, c)
	if err := j.HandlePodCleanups(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "3 BOOKMARK ready")
	expect(t, all, "3 ADD c")
	if err := j.HandlePodCleanups(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, c)
	expect(t, all)
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(Options{})
		c := j.Watch(WatchOptions{})
		next(t, c)
		got := make(chan []*Frame)
		go func() { got <- next(t, c) }()
		synctest.Wait()
		select {
		case frames := <-got:
			t.Fatalf("Next returned %s though there was nothing", show(j, frames))
		default:
		}
		appendSet(j, update(config.ADD, "a"))
		if frames := show(j, <-got); frames != "1 ADD a\n1 BOOKMARK ready" {
			t.Errorf("got %s", frames)
		}
		if _, err := c.Next(done()); !errors.Is(err, context.Canceled) {
			t.Errorf("Next with a context that is done returned %v", err)
		}
	})
}

func awaitRevision(j *Journal, revision int64) {
	for {
		j.mu.RLock()
		head, changed := j.head, j.changed
		j.mu.RUnlock()
		if head >= revision {
			return
		}
		<-changed
	}
}

// Readers of every kind, some of them slow, end with the state that the journal
// has, and see revisions grow.
func TestReadersConverge(t *testing.T) {
	j := newJournal(Options{MaxUpdates: 50})
	random := rand.New(rand.NewPCG(1, 2))
	const updates = 2000
	var readers sync.WaitGroup
	last := j.first + updates
	for i := range 12 {
		mode := []Mode{Incremental, SnapshotAndUpdates, Snapshot}[i%3]
		c := j.Watch(WatchOptions{Mode: mode})
		readers.Go(func() {
			got, revision := replica{}, int64(0)
			for c.position.Load() < last || revision < last {
				for _, f := range next(t, c) {
					if f.Revision < revision {
						t.Errorf("revision %d after %d", f.Revision, revision)
					}
					if revision = f.Revision; f.Op == config.SET {
						clear(got)
					}
					got.apply(f)
				}
				if i >= 6 {
					awaitRevision(j, min(last, revision+100)) // so slow that it falls behind
				}
			}
			if want := present(j).String(); got.String() != want {
				t.Errorf("%s reader has %s, want %s", mode, got, want)
			}
		})
	}
	for n := range updates {
		op, name := config.ADD, fmt.Sprintf("p%d", random.IntN(20))
		if _, there := j.GetPodByUID(pod(name).UID); there {
			op = []config.PodOperation{config.UPDATE, config.REMOVE, config.DELETE}[random.IntN(3)]
		}
		if n == updates-1 {
			op, name = config.ADD, "last" // of which every mode tells
		}
		appendSet(j, update(op, fmt.Sprintf("%s=%d", name, n)))
	}
	readers.Wait()
}
