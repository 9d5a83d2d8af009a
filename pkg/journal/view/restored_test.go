package view

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil/recovered"
)

// restoredJournal has pods of file and api from before a restart. http has not been seen
// before either.
func restoredJournal(sources ...string) *testJournal {
	return newJournal(journal.Options{Sources: sources, Recovered: recovered.Of(map[string][]*v1.Pod{
		"api": {pod("x=1"), pod("y=1")}, "file": {pod("a=1")},
	})})
}

func fromAPI(op config.PodOperation, contents ...string) config.PodUpdate {
	u := update(op, contents...)
	u.Source = "api"
	return u
}

// Pods of a source that is only restored are marked. When the source delivers its first
// set, a BOOKMARK says so, even if no pod has changed.
func TestRestoredPodsAreMarked(t *testing.T) {
	j := restoredJournal("api", "file")
	c := j.watch(StreamOptions{})
	defer c.Close()
	expect(t, c, "- ADD x=1 y=1 restored", "- ADD a=1 restored", "0 BOOKMARK synced restored:api,file")
	appendSet(j, update(config.ADD))
	expect(t, c, "1 ADD", "2 BOOKMARK restored:api")
	other := j.watch(StreamOptions{})
	defer other.Close()
	expect(t, other, "- ADD x=1 y=1 restored", "- ADD a=1", "2 BOOKMARK synced restored:api")
	appendSet(j, fromAPI(config.REMOVE, "x=1"), fromAPI(config.UPDATE, "y=2"))
	for _, c := range []*testCursor{c, other} {
		expect(t, c, "3 REMOVE x=1", "4 UPDATE y=2", "5 BOOKMARK ready")
	}
	appendSet(j, update(config.ADD, "b=1"))
	expect(t, c, "6 ADD b=1")
}

// The last source that is not known becomes known: a BOOKMARK says so.
func TestTheLastUnknownSourceIsSeen(t *testing.T) {
	j := restoredJournal("api", "file", "http", "other")
	c := j.watch(StreamOptions{})
	defer c.Close()
	c.drain()
	for _, step := range []struct {
		source string
		want   []string
	}{
		{"other", []string{"1 ADD"}},
		{"http", []string{"2 ADD", "3 BOOKMARK restored:api,file"}},
		{"file", []string{"4 ADD", "5 BOOKMARK restored:api"}},
		{"api", []string{"6 ADD", "7 BOOKMARK ready"}},
	} {
		u := update(config.ADD)
		u.Source = step.source
		appendSet(j, u)
		expect(t, c, step.want...)
	}
}

// In the snapshot modes, restored sources count from the start.
func TestRestoredPodsInASnapshot(t *testing.T) {
	for _, mode := range []Mode{SnapshotMode, SnapshotAndUpdatesMode} {
		t.Run(string(mode), func(t *testing.T) {
			j := restoredJournal("api", "file")
			c := j.watch(StreamOptions{Mode: mode})
			defer c.Close()
			file := j.watch(StreamOptions{Mode: mode, Options: Options{Selector: Selector{Source: "file"}}})
			defer file.Close()
			expect(t, c, "- SET x=1 y=1 a=1 restored", "0 BOOKMARK synced restored:api,file")
			expect(t, file, "- SET a=1 restored", "0 BOOKMARK synced restored:api,file")
			appendSet(j, update(config.ADD, "b=1"))
			expect(t, c, "1 SET x=1 y=1 a=1 b=1 restored", "2 BOOKMARK restored:api")
			expect(t, file, "1 SET a=1 b=1", "2 BOOKMARK restored:api")
			appendSet(j, fromAPI(config.ADD, "z=1"))
			expect(t, c, "3 SET x=1 y=1 z=1 a=1 b=1", "4 BOOKMARK ready")
		})
	}
}

// A subscriber that lags gets the state of the sources that belongs to each set.
func TestABookmarkIsThatOfItsSet(t *testing.T) {
	j := restoredJournal("api", "file")
	c := j.watch(StreamOptions{})
	defer c.Close()
	c.drain()
	appendSet(j, update(config.ADD, "b=1"))
	appendSet(j, fromAPI(config.REMOVE, "x=1"), fromAPI(config.ADD))
	expect(t, c, "1 ADD b=1", "2 BOOKMARK restored:api", "3 REMOVE x=1", "4 ADD", "5 BOOKMARK ready")
	resumed := j.watch(StreamOptions{Since: &j.first})
	defer resumed.Close()
	expect(t, resumed, "1 ADD b=1", "2 BOOKMARK restored:api", "3 REMOVE x=1", "4 ADD", "5 BOOKMARK ready")
}
