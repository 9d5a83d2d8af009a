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

func mustLabels(s string) labels.Selector {
	selector, err := labels.Parse(s)
	if err != nil {
		panic(err)
	}
	return selector
}

func TestSelectionIsOfPods(t *testing.T) {
	j := newJournal(journal.Options{})
	ones := j.watch(StreamOptions{Options: Options{Selector: Selector{Labels: mustLabels("image=1")}}})
	expect(t, ones, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "a=1", "b=2"))
	expect(t, ones, "2 ADD a=1", "3 BOOKMARK ready")
	appendSet(j, update(config.UPDATE, "a=2", "b=1"))
	expect(t, ones, "- REMOVE a=1 continues", "5 ADD b=1")
	appendSet(j, update(config.UPDATE, "a=3"))
	expect(t, ones)
	appendSet(j, update(config.REMOVE, "a", "b"))
	expect(t, ones, "8 REMOVE b=1")

	appendSet(j, update(config.ADD, "x", "y"))
	expect(t, j.watch(StreamOptions{Options: Options{Selector: Selector{Fields: fields.OneTermEqualSelector("metadata.name", "y")}}}),
		"- ADD y", "10 BOOKMARK synced ready")
	expect(t, j.watch(StreamOptions{Options: Options{Selector: Selector{Source: "api"}}}), "10 BOOKMARK synced ready")
	expect(t, j.watch(StreamOptions{Options: Options{Selector: Selector{Namespace: "other"}}}), "10 BOOKMARK synced ready")
}

func TestMirrorPodsCanBeLeftOut(t *testing.T) {
	j := newJournal(journal.Options{})
	without := j.watch(StreamOptions{Options: Options{Selector: Selector{NoMirrorPods: true}}})
	with := j.watch(StreamOptions{})
	expect(t, without, "0 BOOKMARK synced")
	expect(t, with, "0 BOOKMARK synced")
	both := update(config.ADD, "mirror", "own")
	both.Pods[0].Annotations[v1.MirrorPodAnnotationKey] = "hash"
	appendSet(j, both)
	expect(t, without, "2 ADD own", "3 BOOKMARK ready")
	expect(t, with, "2 ADD mirror own", "3 BOOKMARK ready")
	appendSet(j, update(config.REMOVE, "mirror"))
	expect(t, without)
	expect(t, with, "4 REMOVE mirror")
}

func TestASnapshotSubscriberGetsOnlyItsPods(t *testing.T) {
	j := newJournal(journal.Options{})
	c := j.watch(StreamOptions{Mode: SnapshotMode, Options: Options{Selector: Selector{Labels: mustLabels("image=1")}}})
	expect(t, c, "0 BOOKMARK synced")
	appendSet(j, update(config.ADD, "a=1", "b=2"))
	expect(t, c, "2 SET a=1", "3 BOOKMARK ready")
	appendSet(j, update(config.UPDATE, "b=3"))
	expect(t, c)
	appendSet(j, update(config.UPDATE, "b=1"))
	expect(t, c, "5 SET a=1 b=1")
}

// A pod can start to match by any change, and is sent once.
func TestASnapshotSubscriberGetsPodsThatStartToMatch(t *testing.T) {
	for _, mode := range []Mode{SnapshotMode, SnapshotAndUpdatesMode} {
		j := newJournal(journal.Options{})
		c := j.watch(StreamOptions{Mode: mode, Options: Options{Selector: Selector{Labels: mustLabels("image=1")}}})
		expect(t, c, "0 BOOKMARK synced")
		appendSet(j, update(config.ADD, "a=2", "b=1"))
		expect(t, c, "2 SET b=1", "3 BOOKMARK ready")
		appendSet(j, update(config.RECONCILE, "a=1"))
		expect(t, c, "4 SET a=1 b=1")
		appendSet(j, update(config.UPDATE, "a=2"))
		expect(t, c, "5 SET b=1")
		appendSet(j, update(config.REMOVE, "b"), update(config.UPDATE, "a=1"))
		expect(t, c, "7 SET a=1")
	}
}
