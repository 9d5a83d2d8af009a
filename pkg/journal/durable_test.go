package journal_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
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
	opts.Node, opts.BootID = "node", cmp.Or(opts.BootID, "boot-1")
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

// After a power loss, the pods are restored as they were after the last stored set, and nobody resumes.
func TestAfterAPowerLoss(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a", "b"))
	journaltest.AppendSet(d, journaltest.Update(config.REMOVE, "a"))
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "c"))
	d.settle(t)
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(opts.Dir)); err != nil {
		t.Fatal(err)
	}
	before := d.State()
	again := startDurable(t, store.Options{Dir: left, BootID: "boot-2"})
	after := again.State()
	if after.Instance == before.Instance || after.Revision <= before.Revision || len(again.Sets()) > 0 {
		t.Errorf("revision %d became %d, and there are %d sets", before.Revision, after.Revision, len(again.Sets()))
	}
	if len(after.Pods) != 2 || again.ByUID("b") == nil || again.ByUID("c") == nil {
		t.Errorf("%d pods are restored", len(after.Pods))
	}
	for revision := before.Revision - 3; revision <= before.Revision; revision++ {
		if err := again.Resumable("", revision, nil); !isCompacted(err) {
			t.Errorf("resuming from %d: %v", revision, err)
		}
	}
	if err := again.Resumable(after.Instance, after.Revision, nil); err != nil {
		t.Error(err)
	}
	if got := again.Restored(); !slices.Equal(got, []string{"file"}) {
		t.Errorf("restored: %v", got)
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
	if d = startDurable(t, opts); d.Sources()["http"].Seen {
		t.Error("a forgotten source comes back")
	}
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
