package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
)

var (
	pod       = journaltest.Pod
	update    = journaltest.Update
	appendSet = journaltest.AppendSet
)

func newJournal(opts Options) *Journal {
	if opts.Sources == nil {
		opts.Sources = []string{"file"}
	}
	return New(opts)
}

// size returns the bytes that are counted for pods of this test.
func size(pods int) int64 { return int64(pods) * (int64(pod("p=1").Size())*memoryFactor + nodeMemory) }

// Current pods do not count for the ring. Each other version counts once, as long as the
// ring holds it.
func TestTheRingIsBoundedByBytes(t *testing.T) {
	j := newJournal(Options{MaxBytes: size(3)})
	appendSet(j, update(config.ADD, "p=0"))
	if j.bytes != 0 {
		t.Errorf("%d bytes for a pod that is present", j.bytes)
	}
	for i := range 10 {
		appendSet(j, update(config.UPDATE, fmt.Sprintf("p=%d", i)))
		if want := size(min(i+1, 3)); j.bytes != want {
			t.Errorf("%d bytes after %d updates, want %d", j.bytes, i+1, want)
		}
	}
	if n := j.ring.len(); n != 3 || j.compacted != j.table.revision-3 {
		t.Errorf("%d sets, compacted up to %d of %d", n, j.compacted, j.table.revision)
	}
}

// A subscriber that keeps up is never reset, however large a set is.
func TestTheNewestSetStays(t *testing.T) {
	for _, opts := range []Options{{MaxUpdates: 1}, {MaxBytes: 1}} {
		j := newJournal(opts)
		appendSet(j, update(config.ADD, "a=1", "b=1", "c=1"))
		for range 3 {
			before := j.Revision()
			appendSet(j, update(config.REMOVE, "a"), update(config.ADD, "d"), update(config.UPDATE, "b=2", "c=2"))
			reading, err := j.After(before, nil, 10)
			if err != nil || len(reading.Sets) != 1 || len(reading.Sets[0].Updates) != 3 {
				t.Errorf("after a set of three updates: %d sets, %v", len(reading.Sets), err)
			}
			appendSet(j, update(config.ADD, "a=1"), update(config.REMOVE, "d"))
		}
	}
}

// A set that alone is too large stays only for subscribers that keep up.
func TestASetThatIsTooLargeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(Options{MaxBytes: size(2)})
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- j.Run(ctx) }()
		appendSet(j, update(config.ADD, "a=1", "b=1", "c=1"))
		before := j.Revision()
		appendSet(j, update(config.REMOVE, "a", "b", "c"))
		time.Sleep(oversized - time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		if _, err := j.After(before, nil, 1); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(tick + time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		_, err := j.After(before, nil, 1)
		if _, gone := errors.AsType[*CompactedError](err); !gone || j.bytes != 0 || j.ring.len() != 0 {
			t.Errorf("%v, %d bytes in %d sets", err, j.bytes, j.ring.len())
		}
		if err := j.Resumable("", j.Revision(), nil); err != nil {
			t.Errorf("the current revision can't be resumed from: %v", err)
		}
		cancel()
		<-done
	})
}

// Each pod of an update has its own revision. The rest can be read from it.
func TestEachPodHasARevision(t *testing.T) {
	j := newJournal(Options{})
	before := j.Revision()
	appendSet(j, update(config.ADD, "a", "b", "c"), update(config.RECONCILE, "a=2"))
	for n, want := range []string{"a@1 b@2 c@3 | a@4", "b@2 c@3 | a@4", "c@3 | a@4", "a@4", ""} {
		reading, err := j.After(before+int64(n), nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		var updates []string
		for _, set := range reading.Sets {
			for _, u := range set.Updates {
				var pods []string
				for i, p := range u.Pods {
					if p.Revision != u.First+int64(i) {
						t.Errorf("pod %d of an update from %d has revision %d", i, u.First, p.Revision)
					}
					pods = append(pods, fmt.Sprintf("%s@%d", p.Object.Name, p.Revision-before))
				}
				updates = append(updates, strings.Join(pods, " "))
			}
		}
		if got := strings.Join(updates, " | "); got != want {
			t.Errorf("after %d: %s, want %s", n, got, want)
		}
	}
}

// showNames returns the changes of names by the last set: -pod, +pod or ~pod, by UID.
func showNames(j *Journal) (changes []string) {
	set := j.ring.at(j.ring.len() - 1)
	last := set.First - 1
	for _, c := range set.Names {
		if c.Revision <= last {
			changes = append(changes, "revision twice")
		}
		last = c.Revision
		switch {
		case c.Before == nil:
			changes = append(changes, "+"+string(c.After.Object.UID))
		case c.After == nil:
			changes = append(changes, "-"+string(c.Before.Object.UID))
		default:
			changes = append(changes, "~"+string(c.After.Object.UID))
		}
	}
	if last > set.Revision {
		changes = append(changes, "revision beyond the set")
	}
	return changes
}

// A set is one change of a name. Its intermediate states are not visible.
func TestASetIsOneChangeOfAName(t *testing.T) {
	j := newJournal(Options{Sources: []string{"api", "file"}})
	of := func(op config.PodOperation, source string, pods ...*v1.Pod) config.PodUpdate {
		return config.PodUpdate{Op: op, Source: source, Pods: pods}
	}
	named := func(name, uid string) *v1.Pod {
		p := pod(name)
		p.UID = types.UID(uid)
		return p
	}
	mirror := named("web", "mirror")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	first, second := named("web", "first"), named("web", "second")
	for _, step := range []struct {
		what string
		set  []config.PodUpdate
		want []string
	}{
		{"a static pod", []config.PodUpdate{of(config.ADD, "file", first)}, []string{"+first"}},
		{"its mirror pod", []config.PodUpdate{of(config.ADD, "api", mirror)}, nil},
		{"the static pod is replaced", []config.PodUpdate{of(config.REMOVE, "file", first), of(config.ADD, "file", second)}, []string{"-first", "+second"}},
		{"the static pod goes", []config.PodUpdate{of(config.REMOVE, "file", second)}, []string{"-second", "+mirror"}},
		{"it comes back", []config.PodUpdate{of(config.ADD, "file", second)}, []string{"-mirror", "+second"}},
		{"it is renamed", []config.PodUpdate{of(config.UPDATE, "file", named("db", "second"))}, []string{"-second", "+mirror", "+second"}},
		{"two swap names", []config.PodUpdate{of(config.ADD, "file", named("web", "third"))}, []string{"-mirror", "+third"}},
		{"two swap names", []config.PodUpdate{of(config.UPDATE, "file", named("web", "second"), named("db", "third"))}, []string{"-third", "-second", "+second", "+third"}},
	} {
		appendSet(j, step.set...)
		got := showNames(j)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(step.want))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", step.what, showNames(j), step.want)
		}
	}
}

// Revisions start above those of an earlier instance, even if the clock was set back.
func TestRevisionsStartAboveTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ceiling atomic.Int64
		fail := errors.New("no space left")
		floor := time.Now().Add(time.Hour).UnixMilli()
		j := newJournal(Options{Floor: floor, Reserve: func(n int64) error {
			if err := fail; err != nil {
				fail = nil
				return err
			}
			ceiling.Store(n)
			return nil
		}})
		if j.Revision() != floor+1 || j.Resumable("", floor, nil) == nil {
			t.Errorf("revisions begin at %d, and %d can be resumed from", j.Revision(), floor)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- j.Run(ctx) }()
		for i := range 10 {
			time.Sleep(2 * tick) //nolint:forbidigo // virtual time
			synctest.Wait()
			if ceiling.Load() < j.Revision() {
				t.Errorf("revision %d is above the ceiling %d", j.Revision(), ceiling.Load())
			}
			appendSet(j, update(config.UPDATE, fmt.Sprintf("p=%d", i)))
			j.mu.Lock()
			j.intake.head += 100_000 // like two polls of a URL with 20,000 pods, whose names change each time
			j.mu.Unlock()
			if ceiling.Load() < j.Revision() {
				t.Errorf("revision %d is above the ceiling %d", j.Revision(), ceiling.Load())
			}
		}
		cancel()
		<-done
	})
}
