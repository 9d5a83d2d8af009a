package config

import (
	"runtime"
	"testing"
	"weak"

	v1 "k8s.io/api/core/v1"
)

// After a set is merged, the storage holds no pod that is not in it: there may be no further set for days.
func TestTheStorageHoldsNoOtherPods(t *testing.T) {
	for name, next := range map[string]func(before []*v1.Pod) []*v1.Pod{
		"all are removed": func([]*v1.Pod) []*v1.Pod { return []*v1.Pod{} },
		"the others are":  func(before []*v1.Pod) []*v1.Pod { return []*v1.Pod{before[2]} },
		"one is removed":  func(before []*v1.Pod) []*v1.Pod { return []*v1.Pod{before[0], before[1], before[3], before[4]} },
		"one changes": func(before []*v1.Pod) []*v1.Pod {
			return []*v1.Pod{before[0], before[1], pod("c", "c", image("2")), before[3], before[4]}
		},
		"all change":           func([]*v1.Pod) []*v1.Pod { return []*v1.Pod{pod("a", "a", image("2")), pod("b", "b", image("2"))} },
		"two have one UID now": func([]*v1.Pod) []*v1.Pod { return []*v1.Pod{pod("a", "a"), pod("b", "a")} },
	} {
		t.Run(name, func(t *testing.T) {
			storage := newPodStorage()
			var before []*v1.Pod
			var held []weak.Pointer[v1.Pod]
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				p := pod(name, name)
				before, held = append(before, p), append(held, weak.Make(p))
			}
			storage.merge("file", before)
			set := next(before)
			storage.sources["file"].removals(set)
			storage.merge("file", set)
			in := make(map[weak.Pointer[v1.Pod]]bool)
			for _, p := range set {
				in[weak.Make(p)] = true
			}
			runtime.GC()
			for i, p := range held {
				if p.Value() != nil && !in[p] {
					t.Errorf("pod %d is held, and not in the set", i)
				}
			}
			runtime.KeepAlive(storage)
		})
	}
}
