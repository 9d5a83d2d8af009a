package journal

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A subscriber that resumes gets the state after each set from the one before: only for the first set, later
// sets are undone. It is the state that the journal has at this set.
func TestStatesFollowFromEachOther(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	j := newJournal(Options{})
	present := map[string]bool{}
	for n := range 2000 / testutil.Stride(4) {
		set := map[config.PodOperation][]string{}
		for range 1 + r.IntN(4) {
			name := fmt.Sprint("p", r.IntN(30))
			switch {
			case slices.Contains(slices.Concat(set[config.ADD], set[config.UPDATE], set[config.REMOVE]), name):
			case !present[name]:
				set[config.ADD], present[name] = append(set[config.ADD], name), true
			case r.IntN(3) == 0:
				set[config.REMOVE], present[name] = append(set[config.REMOVE], name), false
			default:
				set[config.UPDATE] = append(set[config.UPDATE], name)
			}
		}
		var updates []config.PodUpdate
		for _, op := range []config.PodOperation{config.REMOVE, config.ADD, config.UPDATE} {
			if names := set[op]; len(names) > 0 {
				updates = append(updates, update(op, names...))
			}
		}
		if n%7 == 0 {
			updates = append(updates, config.PodUpdate{Op: config.RECONCILE, Source: "file"})
		}
		appendSet(j, updates...)
	}

	reading, err := j.After(j.Status().Compacted, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	sets := reading.Sets[:len(reading.Sets)-1] // the state after the newest set is at hand
	states := j.States()
	for i, set := range sets {
		if i%3 == 1 { // it is not needed
			states.Pass(set)
			continue
		}
		got, err := states.After(set)
		if err != nil {
			t.Fatal(err)
		}
		want, err := j.At(set.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("after set %d: %d pods, want %d", i, len(got), len(want))
		}
		if again, err := states.After(set); err != nil || !slices.Equal(again, want) {
			t.Fatalf("set %d once more: %d pods, %v", i, len(again), err)
		}
		if i%500 == 0 {
			runtime.GC() // nothing of the ring is freed
		}
		states.journal = nil // it is not asked again
	}
}

// The pods of a subscriber that waits are freed when they leave the ring. Then the journal says that it fell
// behind.
func TestStatesHoldNoPods(t *testing.T) {
	j := newJournal(Options{MaxUpdates: 10})
	for i := range 10 {
		appendSet(j, update(config.ADD, fmt.Sprint("p", i)))
	}
	reading, err := j.After(j.Status().Compacted, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	states := j.States()
	if _, err := states.After(reading.Sets[3]); err != nil || len(states.pods) != 4 {
		t.Fatal(err, states.pods)
	}
	for i := range 40 {
		appendSet(j, update(config.UPDATE, fmt.Sprintf("p%d=%d", i%10, i)))
	}
	freed := states.pods[0]
	clear(reading.Sets)
	runtime.GC()
	if freed.Value() != nil {
		t.Error("a version that left the ring is held")
	}
	reading, err = j.After(j.Status().Compacted, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	if pods, err := states.After(reading.Sets[0]); err != nil || len(pods) != 10 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
}
