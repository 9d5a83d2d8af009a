package config

import (
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Compares the table with a map.
func TestRefTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	pods := make([]v1.Pod, 300)
	for range 20 {
		var table refTable
		model := make(map[*v1.Pod]uint32)
		entries := make(map[*v1.Pod]*podEntry)
		for range 5000 {
			ref, generation := &pods[random.IntN(len(pods))], random.Uint32N(4)
			was, known := model[ref]
			switch {
			case random.IntN(3) == 0:
				fresh, touched := table.touch([]*v1.Pod{ref}, generation)
				if want := known && was != generation; (touched == 1) != want || (len(fresh) == 0) != want {
					t.Fatalf("touch: %d fresh, %d touched, want it touched: %t", len(fresh), touched, want)
				}
				if known {
					model[ref] = generation
				}
			case known:
				table.remove(ref)
				delete(model, ref)
			default:
				entries[ref] = &podEntry{ref: ref}
				table.put(entries[ref], generation)
				model[ref] = generation
			}
			if table.size != len(model) {
				t.Fatalf("size %d, want %d", table.size, len(model))
			}
		}
		absent := make(map[*v1.Pod]bool)
		all := make([]*v1.Pod, len(pods)) // also those that are not in the table
		for i := range pods {
			all[i] = &pods[i]
		}
		for _, entry := range table.absent(all, 1) {
			absent[entry.ref] = true
		}
		for ref, generation := range model {
			i := table.slot(ref)
			if table.refs[i] != ref || table.generation(ref) != generation || table.entries[i] != entries[ref] || absent[ref] == (generation == 1) {
				t.Fatal("an entry is not as it was put")
			}
			delete(absent, ref)
		}
		if len(absent) > 0 {
			t.Fatal("what was removed is there")
		}
	}
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
