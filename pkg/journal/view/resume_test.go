package view

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// states returns, for each revision that can be resumed from, the state of a client that
// has read pod by pod up to there: by source and UID, and by name.
func states(t *testing.T, j *testJournal) (pods, names map[int64]map[string]*journal.Pod) {
	t.Helper()
	from := j.Status().Compacted
	named, _, err := j.Named(from)
	if err != nil {
		t.Fatal(err)
	}
	pod, name := map[string]*journal.Pod{}, map[string]*journal.Pod{}
	for _, p := range named {
		name[p.Object.Name] = p
	}
	reading, err := j.After(from, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range j.State().Pods {
		pod[podKeyOf(p)] = p
	}
	for _, set := range slices.Backward(reading.Sets) { // back to the beginning
		for _, u := range slices.Backward(set.Updates) {
			for i, p := range slices.Backward(u.Pods) {
				switch {
				case !u.Op.IsConfig():
				case u.Before[i] == nil:
					delete(pod, podKeyOf(p))
				default:
					pod[podKeyOf(p)] = u.Before[i]
				}
			}
		}
	}
	pods, names = map[int64]map[string]*journal.Pod{}, map[int64]map[string]*journal.Pod{}
	at := from
	upTo := func(revision int64) { // not with it
		for ; at < revision; at++ {
			pods[at], names[at] = maps.Clone(pod), maps.Clone(name)
		}
	}
	for _, set := range reading.Sets {
		changes := set.Names
		advance := func(revision int64) {
			upTo(revision)
			for len(changes) > 0 && changes[0].Revision <= revision {
				if c := changes[0]; c.After != nil {
					name[c.After.Object.Name] = c.After
				} else {
					delete(name, c.Before.Object.Name)
				}
				changes = changes[1:]
			}
		}
		for _, u := range set.Updates {
			for i, p := range u.Pods {
				advance(u.First + int64(i))
				switch {
				case !u.Op.IsConfig():
				case u.Op == config.REMOVE:
					delete(pod, podKeyOf(p))
				default:
					pod[podKeyOf(p)] = p
				}
			}
		}
		for len(changes) > 0 {
			advance(changes[0].Revision)
		}
	}
	upTo(j.Revision() + 1)
	return pods, names
}

func podKeyOf(p *journal.Pod) string { return p.Source + "/" + string(p.Object.UID) }

// Each view can resume from a revision of any interface, also from the middle of an
// update, and from revisions that no pod has.
func TestResumeFromEveryRevision(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		j := newJournal(journal.Options{Sources: []string{"api", "file", "http"}, MaxUpdates: 1 + r.IntN(60)})
		for range 30 {
			randomSet(r, j, seed%2 == 0)
			if r.IntN(4) == 0 {
				unrecorded(t, j)
			}
		}
		pods, names := states(t, j)
		odd := Selector{Labels: mustLabels("image in (1, 3, 5)")}
		for since := j.Status().Compacted; since <= j.Revision(); since += int64(testutil.Stride(3)) {
			for _, selector := range []Selector{{}, odd, podsAPI, {Source: "file"}} {
				for _, mode := range []Mode{IncrementalMode, SnapshotMode, SnapshotAndUpdatesMode} {
					s := resumed(selector, mode, journal.BySource, since, pods[since])
					s.open = openStream(StreamOptions{Options: s.Options, Mode: mode, Ops: opsOf(mode)})
					s.strict = mode == IncrementalMode && seed%2 > 0
					s.follow(t, j)
				}
				s := resumed(selector, IncrementalMode, journal.ByName, since, names[since])
				s.open, s.strict = openNames(s.Options), true
				s.follow(t, j)
			}
			named, _, err := j.Named(since)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range named {
				if names[since][p.Object.Name] != p {
					t.Errorf("names at %d: %s, the subscriber has %v", since-j.first, showPod(p, p.Revision), names[since][p.Object.Name])
				}
			}
			if len(named) != len(names[since]) {
				t.Errorf("names at %d: %d, the subscriber has %d", since-j.first, len(named), len(names[since]))
			}
			if t.Failed() {
				t.Fatalf("seed %d, since %d", seed, since-j.first)
			}
		}
	}
}

func opsOf(mode Mode) journal.Operations {
	if mode == IncrementalMode {
		return nil
	}
	return allOps()
}

// unrecorded makes an event that no subscriber requests, and then a subscriber that
// requests it. So the next revision is empty.
func unrecorded(t *testing.T, j *testJournal) {
	t.Helper()
	p, e := died("a")
	j.RecordEvent(p, e)
	j.watch(StreamOptions{Ops: journal.Operations{config.PLEG: true}}).Close()
}

// resumed returns a subscriber that has some of the pods.
func resumed(selector Selector, mode Mode, view journal.Order, since int64, pods map[string]*journal.Pod) *testSubscriber {
	s := &testSubscriber{
		name: fmt.Sprintf("%s by %d of %+v", mode, view, selector), mode: mode, view: view,
		Options: Options{Selector: selector}, since: new(since), held: map[string]string{},
	}
	for key, p := range pods {
		if selector.Matches(p) {
			s.held[key] = showPod(p, 0)
			if view == journal.ByName {
				s.held[key] = showPod(p, p.Revision)
			}
		}
	}
	return s
}

// follow reads everything, and compares.
func (s *testSubscriber) follow(t *testing.T, j *testJournal) {
	t.Helper()
	s.read(t, j, 1<<20)
	s.cut()
	s.compare(t, j)
}

// A subscriber that is disconnected after any frame, and resumes, gets the same as
// without the disconnect.
func TestResumeAfterEveryFrame(t *testing.T) {
	for _, mode := range []Mode{IncrementalMode, SnapshotAndUpdatesMode, SnapshotMode} {
		for _, selector := range []Selector{{}, {Labels: mustLabels("image in (1,3)")}} {
			t.Run(fmt.Sprintf("%s/%v", mode, selector.Labels), func(t *testing.T) {
				j := newJournal(journal.Options{})
				whole := j.watch(StreamOptions{Mode: mode, Options: Options{Selector: selector}})
				frames := whole.drain()
				makeChanges(j)
				makeChanges(j)
				frames = append(frames, whole.drain()...)
				for cut := range frames {
					since := frames[cut].Revision
					if since == 0 {
						continue
					}
					resumed := j.watch(StreamOptions{Mode: mode, Options: Options{Selector: selector}, Since: &since, Instance: j.Instance()})
					if got, want := show(j, resumed.drain()), show(j, frames[cut+1:]); got != want {
						t.Errorf("after %q: got\n%s\nwant\n%s", showFrame(j, frames[cut]), got, want)
					}
				}
			})
		}
	}
}

func TestResumeFails(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 2})
	makeChanges(j)
	revision := func(n int64) *int64 { n += j.first; return &n }
	for _, test := range []struct {
		name   string
		opts   StreamOptions
		reason string
	}{
		{"compacted", StreamOptions{Since: revision(5)}, "is compacted"},
		{"of another instance", StreamOptions{Since: revision(10), Instance: "other"}, "belongs to instance other"},
		{"of an instance before", StreamOptions{Since: revision(-1000)}, "is compacted"},
		{"not there yet", StreamOptions{Since: revision(11)}, "is unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := j.watch(test.opts)
			frames := c.drain()
			if got, want := show(j, frames), "- BOOKMARK reset ready\n- ADD c=3\n10 BOOKMARK synced ready"; got != want {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(frames[0].Message, test.reason) {
				t.Errorf("the reset says %q, want %q in it", frames[0].Message, test.reason)
			}
		})
	}
	expect(t, j.watch(StreamOptions{Since: revision(8)}), "9 RECONCILE c=3", "10 REMOVE a=3")
	expect(t, j.watch(StreamOptions{Since: revision(10)}))
}
