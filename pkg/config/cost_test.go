package config

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A merge in which one pod changes makes as many allocations among 5,000 pods as among 50, and looks up this pod only.
func TestAMergeDoesNotCostTheOtherPods(t *testing.T) {
	cost := func(others int) float64 {
		storage := newPodStorage()
		set := SourceSet{}
		put := func(i, image int) *v1.Pod {
			return &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "default", UID: types.UID(fmt.Sprint("u", i))},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: fmt.Sprint(image)}}},
			}
		}
		for i := range others {
			set.Pods, set.Files = append(set.Pods, put(i, 0)), append(set.Files, &File{Path: fmt.Sprint(i)})
		}
		storage.merge(FileSource, set.Pods)
		image := 0
		return testing.AllocsPerRun(20, func() {
			image++
			next := SourceSet{Pods: slices.Clone(set.Pods), Files: set.Files}
			next.Pods[others/2] = put(others/2, image)
			if old, fresh := storage.sources[FileSource].change(next.Pods); len(old)+len(fresh) != 2 {
				t.Fatalf("%d and %d pods are looked up", len(old), len(fresh))
			}
			for _, u := range storage.merge(FileSource, next.Pods).podUpdates(FileSource, &next) {
				if len(u.Files) != 1 || u.Files[0].Path != fmt.Sprint(others/2) {
					t.Fatalf("the files are %v", u.Files)
				}
			}
			set = next
		})
	}
	if few, many := cost(50), cost(5000); many > few+5 {
		t.Errorf("%.0f allocations among 5000 pods, %.0f among 50", many, few)
	}
}
