package poddiff

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

func base() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{config.ConfigHashAnnotationKey: "1"}},
		Spec: v1.PodSpec{Containers: []v1.Container{
			{Name: "a", Image: "i:1", Args: []string{"x", "y"}}, {Name: "b", Image: "j:1"},
		}},
	}
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1.Pod)
		want   []string
	}{
		{"nothing", func(*v1.Pod) {}, nil},
		{"an image", func(p *v1.Pod) { p.Spec.Containers[1].Image = "j:2" }, []string{"spec.containers[b].image: j:1 → j:2"}},
		{"an argument", func(p *v1.Pod) { p.Spec.Containers[0].Args[1] = "z" }, []string{"spec.containers[a].args[1]: y → z"}},
		{"the order of containers", func(p *v1.Pod) {
			c := p.Spec.Containers
			c[0], c[1] = c[1], c[0]
		}, nil},
		{"a label", func(p *v1.Pod) { p.Labels = map[string]string{"k": "v"} }, []string{`metadata.labels: (none) → {"k":"v"}`}},
		{"what the merge notes", func(p *v1.Pod) {
			p.Annotations = map[string]string{config.ConfigHashAnnotationKey: "2", config.ConfigFirstSeenAnnotationKey: "now"}
		}, nil},
		{"deletion", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} },
			[]string{"metadata.deletionTimestamp: (none) → 1970-01-01T00:00:00Z"}},
		{"an owner", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", UID: "1f4b"}}
		}, []string{"metadata.ownerReferences.ReplicaSet/web-1: (none) → 1f4b"}},
		{"the status", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, []string{`status.phase: (none) → Running`}},
		{"a long value", func(p *v1.Pod) { p.Spec.Hostname = strings.Repeat("x", 100) },
			[]string{"spec.hostname: (none) → " + strings.Repeat("x", maxValue-1) + "…"}},
		{"a container less", func(p *v1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
			[]string{`spec.containers[b]: {"image":"j:1","name":"b","resources":{… → (none)`}},
		{"an empty list", func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{} }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := base()
			test.change(after)
			got := Compare(base(), after)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A pod that is added again says what changed. Without a change, it says so, and names the UID only if that is another one.
func TestPodsThatAreAddedAgain(t *testing.T) {
	pod := func(uid, image string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}}}
	}
	for want, c := range map[string]Change{
		"recreated: only the UID":                    {v1alpha1.OpAdd, pod("1", "i"), pod("2", "i")},
		"removed and added again, unchanged":         {v1alpha1.OpAdd, pod("1", "i"), pod("1", "i")},
		"recreated: spec.containers[c].image: i → j": {v1alpha1.OpAdd, pod("1", "i"), pod("1", "j")},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// After a reset, access rules may hide what a pod of before had.
func TestAResetForgetsAllPods(t *testing.T) {
	s, pod := NewStream(), base()
	s.Take(v1alpha1.OpRemove, pod)
	s.Reset()
	if change := s.Take(v1alpha1.OpAdd, pod); change.Before != nil {
		t.Error("the version before a reset is known after it")
	}
}
