package view

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A source may have a UID twice in a set. The merge then emits both pods, and the last
// one stays. A subscriber that selects only the first one has neither.
func TestAUIDTwiceInAnUpdate(t *testing.T) {
	same := func(contents ...string) config.PodUpdate {
		u := update(config.ADD, contents...)
		for _, p := range u.Pods {
			p.UID = types.UID("same")
		}
		return u
	}
	for name, test := range map[string]struct {
		add, want []string
	}{
		"two UIDs":             {[]string{"a=1", "b=2"}, nil},
		"the same UID first":   {[]string{"a=1", "b=1", "c=2"}, nil},
		"the same UID last":    {[]string{"a=2", "b=1"}, []string{"2 ADD b=1"}},
		"with another between": {[]string{"a=1", "b=2", "c=1"}, []string{"3 ADD c=1"}},
		"the same UID only":    {[]string{"a=1", "b=1"}, []string{"2 ADD b=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(journal.Options{})
			c := j.watch(StreamOptions{Options: Options{Selector: Selector{Labels: mustLabels("image=1")}}})
			expect(t, c, "0 BOOKMARK synced")
			appendSet(j, same(test.add...))
			expect(t, c, append(test.want, show(j, []*Frame{bookmark("", j.Revision(), &journal.Bookmark{Ready: true})}))...)
			c.Close()
		})
	}
	// The same version twice is one change.
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a=2"))
	c := j.watch(StreamOptions{Options: Options{Selector: Selector{Labels: mustLabels("image=1")}}})
	defer c.Close()
	expect(t, c, "2 BOOKMARK synced ready")
	p := pod("a=1")
	appendSet(j, config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{p, p}})
	expect(t, c, "4 ADD a=1")
}

// Also a subscriber of snapshots that selects pods gets a UID once, in its last version.
func TestAUIDTwiceBesideSnapshots(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a=1"))
	c := j.watch(StreamOptions{Mode: SnapshotAndUpdatesMode, Options: Options{Selector: Selector{Labels: mustLabels("image=1")}}})
	defer c.Close()
	expect(t, c, "- SET a=1", "2 BOOKMARK synced ready")
	u := update(config.UPDATE, "a=1", "b=1", "c=1")
	for _, p := range u.Pods {
		p.UID = "a"
	}
	appendSet(j, u)
	expect(t, c, "5 UPDATE c=1")
}

// The text of a selector that matches nothing is the same as that of one that matches
// everything.
func TestASelectorOfNothing(t *testing.T) {
	j := newJournal(journal.Options{})
	all := j.watch(StreamOptions{Options: Options{Selector: Selector{Labels: labels.Everything(), Fields: fields.Everything()}}})
	defer all.Close()
	noLabels := j.watch(StreamOptions{Options: Options{Selector: Selector{Labels: labels.Nothing()}}})
	defer noLabels.Close()
	noFields := j.watch(StreamOptions{Options: Options{Selector: Selector{Fields: fields.Nothing()}}})
	defer noFields.Close()
	for _, c := range []*testCursor{all, noLabels, noFields} {
		expect(t, c, "0 BOOKMARK synced")
	}
	appendSet(j, update(config.ADD, "a"))
	expect(t, all, "1 ADD a", "2 BOOKMARK ready")
	expect(t, noLabels, "2 BOOKMARK ready")
	expect(t, noFields, "2 BOOKMARK ready")
}

// An empty set of another source is not sent to subscribers that select a source.
func TestTheFirstSetOfAnotherSource(t *testing.T) {
	for _, mode := range []Mode{IncrementalMode, SnapshotMode, SnapshotAndUpdatesMode} {
		j := newJournal(journal.Options{Sources: []string{"file", "http"}})
		appendSet(j, update(config.ADD, "a"))
		c := j.watch(StreamOptions{Mode: mode, Options: Options{Selector: Selector{Source: "file"}}})
		c.drain()
		other := update(config.ADD)
		other.Source = "http"
		appendSet(j, other)
		expect(t, c, "3 BOOKMARK ready")
		c.Close()
	}
}
