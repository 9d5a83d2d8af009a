package config

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A pod that occurs twice in a set, as the same pointer, does not stand for another one.
func TestAPointerTwice(t *testing.T) {
	storage := newPodStorage()
	a, b := pod("a", "a"), pod("b", "b")
	storage.merge("file", []*v1.Pod{a, b})
	result := storage.merge("file", []*v1.Pod{a, a})
	if !result.ambiguous || len(result.duplicates) != 1 || len(result.removes) != 1 || result.removes[0].ref != b {
		t.Errorf("ambiguous: %t, %d duplicates, %d removes", result.ambiguous, len(result.duplicates), len(result.removes))
	}
	checkIndexes(t, storage.sources["file"])
}

// A set that is held, and not merged, leaves no mark: that a pod occurs twice is still found in the next set.
func TestAHeldSetLeavesNoMark(t *testing.T) {
	for _, held := range []int{0, 1, 4} { // of five pods: few, or nearly all
		storage := newPodStorage()
		var set []*v1.Pod
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			set = append(set, pod(name, name))
		}
		storage.merge("file", set)
		if got := storage.sources["file"].removals(set[:held]); got != 5-held {
			t.Errorf("the held set removes %d pods, want %d", got, 5-held)
		}
		again := slices.Concat(set, []*v1.Pod{pod("e2", "e", image("2"))})
		if result := storage.merge("file", again); !result.ambiguous {
			t.Errorf("after a held set of %d pods, two pods of one UID are not found", held)
		}
	}
}
