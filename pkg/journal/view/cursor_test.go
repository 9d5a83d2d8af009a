package view

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func TestAStreamStartsWithTheCurrentState(t *testing.T) {
	j := newJournal(journal.Options{Sources: []string{"api", "file"}})
	early := j.watch(StreamOptions{})
	expect(t, early, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "b", "a"))
	api := update(config.ADD, "c")
	api.Source = "api"
	appendSet(j, api)
	expect(t, early, "2 ADD b a", "3 ADD c", "4 BOOKMARK ready")
	expect(t, j.watch(StreamOptions{}), "- ADD c", "- ADD a b", "4 BOOKMARK synced ready")
}

func TestOneSetBecomesVisibleAtOnce(t *testing.T) {
	j := newJournal(journal.Options{})
	c := j.watch(StreamOptions{})
	expect(t, c, "0 BOOKMARK synced")
	u := update(config.ADD, "a")
	u.More = true
	j.Append(u)
	expect(t, c)
	j.Append(update(config.RECONCILE))
	expect(t, c, "1 ADD a", "2 RECONCILE", "3 BOOKMARK ready")
}

// changes appends sets with every operation.
func makeChanges(j *testJournal) {
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
		{IncrementalMode, []string{
			"2 ADD a=1 b=1", "3 BOOKMARK ready", "4 REMOVE b=1", "5 ADD c=1", "6 UPDATE a=2",
			"7 DELETE a=3", "8 RECONCILE c=2", "9 RECONCILE c=3", "10 REMOVE a=3",
		}},
		{SnapshotAndUpdatesMode, []string{
			"2 SET a=1 b=1", "3 BOOKMARK ready", "5 SET a=2 c=1", "6 UPDATE a=2", "7 DELETE a=3", "10 SET c=3",
		}},
		{SnapshotMode, []string{
			"2 SET a=1 b=1", "3 BOOKMARK ready", "6 SET a=2 c=1", "7 SET a=3 c=2", "10 SET c=3",
		}},
	} {
		t.Run(string(test.mode), func(t *testing.T) {
			j := newJournal(journal.Options{})
			c := j.watch(StreamOptions{Mode: test.mode})
			expect(t, c, "0 BOOKMARK synced")
			makeChanges(j)
			expect(t, c, test.want...)
		})
	}
}

// The first SET is not sent before a source was seen. An earlier one would be empty.
func TestNoSnapshotBeforeASourceIsSeen(t *testing.T) {
	j := newJournal(journal.Options{Sources: []string{"api", "file"}})
	expect(t, j.watch(StreamOptions{Mode: SnapshotMode}), "0 BOOKMARK synced")
	appendSet(j, update(config.ADD))
	expect(t, j.watch(StreamOptions{Mode: SnapshotMode}), "- SET", "1 BOOKMARK synced")
}

func TestASubscriberThatFallsBehindIsReset(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 4})
	c := j.watch(StreamOptions{})
	expect(t, c, "0 BOOKMARK synced")
	for i := range 3 {
		appendSet(j, update(config.ADD, fmt.Sprintf("p%d", i)))
	}
	expect(t, c, "1 ADD p0", "2 BOOKMARK ready", "3 ADD p1", "4 ADD p2")
	for i := range 5 {
		appendSet(j, update(config.ADD, fmt.Sprintf("q%d", i)))
	}
	expect(t, c, "- BOOKMARK reset ready", "- ADD p0 p1 p2 q0 q1 q2 q3 q4", "9 BOOKMARK synced ready")
	appendSet(j, update(config.ADD, "r"))
	expect(t, c, "10 ADD r")
	if got := j.Status().Subscribers[0].Resets; got != 1 {
		t.Errorf("status says %d resets, want 1", got)
	}
}

func TestRequestedOperations(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a"))
	plain := j.watch(StreamOptions{})
	expect(t, plain, "- ADD a", "2 BOOKMARK synced ready")
	j.HandlePodSyncs(t.Context(), update(config.SYNC, "a").Pods)
	if j.Revision() != j.first+2 {
		t.Error("a SYNC was taken though nobody asked for it")
	}
	syncs := j.watch(StreamOptions{Ops: journal.Operations{config.SYNC: true}})
	expect(t, syncs, "3 BOOKMARK synced ready")
	j.HandlePodSyncs(t.Context(), update(config.SYNC, "a").Pods)
	expect(t, syncs, "4 SYNC a")
	expect(t, plain)
	syncs.Close()
	if n := len(j.Status().Subscribers); n != 1 {
		t.Errorf("%d subscribers after one of two closed", n)
	}
}

// A subscriber whose selection matches nothing gets bookmarks.
func TestProgress(t *testing.T) {
	j := newJournal(journal.Options{})
	c := j.watch(StreamOptions{Options: Options{Selector: Selector{Namespace: "other"}}})
	all := j.watch(StreamOptions{})
	expect(t, c, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "a"))
	appendSet(j, update(config.ADD, "b"))
	expect(t, c, "2 BOOKMARK ready")
	all.drain()
	appendSet(j, update(config.ADD, "c"))
	expect(t, c)
	j.Progress()
	expect(t, c, "4 BOOKMARK ready")
	expect(t, all, "4 ADD c")
	j.Progress()
	expect(t, c)
	expect(t, all)
}

// Bookmarks are sent even if a source is never seen.
func TestProgressWhileASourceIsUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(journal.Options{Sources: []string{"api", "file"}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- j.Run(ctx) }()
		c := j.watch(StreamOptions{Options: Options{Selector: Selector{Namespace: "other"}}})
		defer c.Close()
		expect(t, c, "0 BOOKMARK synced")
		appendSet(j, update(config.ADD, "a"))
		expect(t, c)
		if frames := next(t, c); show(j, frames) != "1 BOOKMARK" { // it waits for the ticker
			t.Errorf("got %s", show(j, frames))
		}
		cancel()
		<-done
	})
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(journal.Options{})
		c := j.watch(StreamOptions{})
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
		// Next can return before the second set, the bookmark, is appended.
		if frames := append(slices.Clone(<-got), c.drain()...); show(j, frames) != "1 ADD a\n2 BOOKMARK ready" {
			t.Errorf("got %s", show(j, frames))
		}
		if _, err := c.Next(done()); !errors.Is(err, context.Canceled) {
			t.Errorf("Next with a context that is done returned %v", err)
		}
	})
}

// A stream ends with its context, however much there is to send.
func TestNextEndsWithTheContext(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a"))
	for name, c := range map[string]*Cursor{
		"stream": Stream(j.Journal, StreamOptions{}), "names": Names(j.Journal, NamesOptions{}), "uids": UIDs(j.Journal, Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			if frames, err := c.Next(done()); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %d frames, %v", name, len(frames), err)
			}
			c.Close()
		})
	}
}

func awaitRevision(j *testJournal, revision int64) {
	for {
		head := j.Revision()
		r, err := j.After(head, nil, 1)
		if head >= revision {
			return
		}
		if err == nil && len(r.Sets) == 0 { // do not wait for later ones
			<-r.Changed
		}
	}
}

// Subscribers of every kind, some of them slow, end with the state of the journal, and
// revisions only increase.
func TestSubscribersConverge(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 50})
	random := rand.New(rand.NewPCG(1, 2))
	const updates = 2000
	var subscribers sync.WaitGroup
	last := j.first + updates + 1 // the first bookmark has one too
	for i := range 12 {
		mode := []Mode{IncrementalMode, SnapshotAndUpdatesMode, SnapshotMode}[i%3]
		c := j.watch(StreamOptions{Mode: mode})
		subscribers.Go(func() {
			got, revision := replica{}, int64(0)
			for c.position < last || revision < last {
				for _, f := range next(t, c) {
					if f.Revision != 0 && f.Revision <= revision {
						t.Errorf("revision %d after %d", f.Revision, revision)
					}
					if f.Op == config.SET {
						clear(got)
					}
					revision = max(revision, f.Revision)
					got.apply(f)
				}
				if i >= 6 {
					awaitRevision(j, min(last, revision+100)) // so slow that it falls behind
				}
			}
			if want := presentOf(j).String(); got.String() != want {
				t.Errorf("%s subscriber has %s, want %s", mode, got, want)
			}
		})
	}
	for n := range updates {
		op, name := config.ADD, fmt.Sprintf("p%d", random.IntN(20))
		if _, there := j.Revision(), j.ByUID(pod(name).UID) != nil; there {
			op = []config.PodOperation{config.UPDATE, config.REMOVE, config.DELETE}[random.IntN(3)]
		}
		if n == updates-1 {
			op, name = config.ADD, "last" // which every mode sends
		}
		appendSet(j, update(op, fmt.Sprintf("%s=%d", name, n)))
	}
	subscribers.Wait()
}
