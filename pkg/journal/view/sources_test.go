package view

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func added(source string) config.PodUpdate {
	return config.PodUpdate{Op: config.BOOKMARK, Source: source, Pods: []*v1.Pod{}, Change: config.SourceAdded}
}

func removed(source string, contents ...string) config.PodUpdate {
	u := update(config.REMOVE, contents...)
	u.Source, u.Change = source, config.SourceRemoved
	return u
}

// Each subscriber gets a bookmark when a source is added or removed, and can resume from it.
// The removed pods come before it.
func TestSourcesThatAreAddedAndRemoved(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a"))
	incremental, snapshots := j.watch(StreamOptions{}), j.watch(StreamOptions{Mode: SnapshotMode})
	of := j.watch(StreamOptions{Options: Options{Selector: Selector{Source: "file"}}})
	names := &testCursor{j, Names(j.Journal, NamesOptions{})}
	for _, c := range []*testCursor{incremental, snapshots, of, names} {
		c.drain()
	}
	j.HandleSourceChange(t.Context(), added("file:x"))
	for _, c := range []*testCursor{incremental, snapshots, of, names} {
		expect(t, c, "3 BOOKMARK")
	}
	if j.AllReady() || j.CheckKnown() != nil {
		t.Errorf("ready %t, known: %v", j.AllReady(), j.CheckKnown())
	}
	first := update(config.ADD, "b", "c")
	first.Source = "file:x"
	appendSet(j, first)
	expect(t, incremental, "5 ADD b c", "6 BOOKMARK ready")
	expect(t, snapshots, "5 SET a b c", "6 BOOKMARK ready")
	expect(t, of, "6 BOOKMARK ready")
	j.HandleSourceChange(t.Context(), removed("file:x", "b", "c"))
	expect(t, incremental, "8 REMOVE b c", "9 BOOKMARK ready")
	expect(t, snapshots, "8 SET a", "9 BOOKMARK ready")
	expect(t, of, "9 BOOKMARK ready")
	if sources := j.State().Bookmark.Sources; len(sources) != 1 {
		t.Errorf("sources: %v", sources)
	}
	since := j.first + 1
	resumed := j.watch(StreamOptions{Since: &since})
	expect(t, resumed, "2 BOOKMARK ready", "3 BOOKMARK", "5 ADD b c", "6 BOOKMARK ready", "8 REMOVE b c", "9 BOOKMARK ready")
	// A source without pods changes only the bookmark.
	j.HandleSourceChange(t.Context(), added("http:y"))
	j.HandleSourceChange(t.Context(), removed("http:y"))
	expect(t, incremental, "10 BOOKMARK", "11 BOOKMARK ready")
}

// The bookmark behind an update does not push the update out of the ring.
func TestABookmarkBehindTheNewestSet(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 1})
	c := j.watch(StreamOptions{})
	expect(t, c, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "a", "b"))
	expect(t, c, "2 ADD a b", "3 BOOKMARK ready")
	j.HandleSourceChange(t.Context(), added("file:x"))
	first := update(config.ADD, "c")
	first.Source = "file:x"
	appendSet(j, first)
	expect(t, j.watch(StreamOptions{Since: new(j.first + 4)}), "5 ADD c", "6 BOOKMARK ready")
	j.HandleSourceChange(t.Context(), removed("file:x", "c"))
	expect(t, j.watch(StreamOptions{Since: new(j.first + 6)}), "7 REMOVE c", "8 BOOKMARK ready")
	appendSet(j, update(config.ADD, "d"))
	expect(t, j.watch(StreamOptions{Since: new(j.first + 8)}), "9 ADD d")
}

// While a source of the start is not seen, the pods are not known, and an added source does
// not change it.
func TestASourceAddedBeforeAllAreKnown(t *testing.T) {
	j := newJournal(journal.Options{Sources: []string{"api", "file"}})
	appendSet(j, update(config.ADD, "a"))
	j.HandleSourceChange(t.Context(), added("file:x"))
	if err := j.CheckKnown(); err == nil || err.Error() != "waiting for sources: api, file:x" {
		t.Errorf("known: %v", err)
	}
	j.HandleSourceChange(t.Context(), removed("api"))
	j.HandleSourceChange(t.Context(), removed("file:x"))
	if err := j.CheckKnown(); err != nil || !j.AllReady() {
		t.Errorf("known: %v, ready: %t", err, j.AllReady())
	}
}

// Changes of the sources alone do not fill the ring without end.
func TestManyChangesOfSources(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 10})
	appendSet(j, update(config.ADD, "a"))
	for range 100 {
		j.HandleSourceChange(t.Context(), added("file:x"))
		j.HandleSourceChange(t.Context(), removed("file:x"))
	}
	if n := j.Status().Compacted - j.first; n < 180 {
		t.Errorf("compacted up to revision %d", n)
	}
}

// Sets beyond the new limits leave the ring at once.
func TestSetLimits(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a"))
	for i := range 50 {
		appendSet(j, update(config.UPDATE, fmt.Sprintf("a=%d", i)))
	}
	j.SetLimits(10, 1<<20)
	if n := j.Revision() - j.Status().Compacted; n != 10 {
		t.Errorf("%d revisions are left", n)
	}
	j.SetLimits(100, 1<<20)
	appendSet(j, update(config.UPDATE, "a=x"))
	if n := j.Revision() - j.Status().Compacted; n != 11 {
		t.Errorf("%d revisions are left after the limit was raised", n)
	}
}
