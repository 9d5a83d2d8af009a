package config

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// by sets the controller of a pod.
func by(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, Controller: new(true)}}
	}
}

// byNone sets an empty list of owners.
func byNone(p *v1.Pod) { p.OwnerReferences = []metav1.OwnerReference{} }

// With FollowOwners, a known pod of the apiserver gets new owner references. In the kubelet, it keeps its first ones.
func TestOwnerReferencesAreFollowed(t *testing.T) {
	steps := []struct {
		pod *v1.Pod
		// want and owner are the updates and the controller with FollowOwners, and kept are the updates of the kubelet.
		want, owner, kept string
	}{
		{pod("a", "1"), "ADD a", "", "ADD a"},
		{pod("a", "1", byNone), "", "", ""},
		{pod("a", "1", by("web-1")), "RECONCILE a", "web-1", ""}, // adopted
		{pod("a", "1", by("web-1")), "", "web-1", ""},
		{pod("a", "1", by("web-2")), "RECONCILE a", "web-2", ""},
		{pod("a", "1", by("web-3"), phase(v1.PodRunning)), "RECONCILE a", "web-3", "RECONCILE a"},
		{pod("a", "1", by("web-4"), image("2")), "UPDATE a", "web-4", "UPDATE a"},
		{pod("a", "1", by("web-5"), image("2"), deleting), "DELETE a", "web-5", "DELETE a"},
		{pod("a", "1", image("2"), deleting), "RECONCILE a", "", ""}, // orphaned
	}
	for _, test := range []struct {
		source                     string
		follow, ambiguous, follows bool
	}{
		{source: ApiserverSource, follow: true, follows: true}, {source: ApiserverSource, follow: true, ambiguous: true, follows: true},
		{source: ApiserverSource}, {source: FileSource, follow: true},
	} {
		c := NewPodConfig()
		if test.follow {
			c.FollowOwners()
		}
		for i, step := range steps {
			set := []*v1.Pod{step.pod}
			if test.ambiguous {
				set = append(set, pod("a", "2"))
			}
			want, owner := step.kept, ""
			if test.follows {
				want, owner = step.want, step.owner
			}
			if got := summary(c.storage.merge(test.source, set).podUpdates(test.source, &SourceSet{})); got != want {
				t.Errorf("%+v, step %d: got %q, want %q", test, i, got, want)
			}
			got := ""
			for _, r := range c.storage.sources[test.source].byUID["1"].pod.OwnerReferences {
				got = r.Name
			}
			if got != owner {
				t.Errorf("%+v, step %d: the owner is %q, want %q", test, i, got, owner)
			}
		}
	}
}

// The first set after a restart is compared with what was restored.
func TestOwnerReferencesAfterARestart(t *testing.T) {
	for follow, want := range map[bool]string{false: "ADD", true: "ADD; RECONCILE a c"} {
		s := newPodStorage()
		s.restore(ApiserverSource, []*v1.Pod{pod("a", "1", by("web-1")), pod("b", "2"), pod("c", "3", by("web-1"))})
		s.owners = follow
		set := []*v1.Pod{pod("a", "1", by("web-2")), pod("b", "2", byNone), pod("c", "3")}
		if got := summary(s.merge(ApiserverSource, set).podUpdates(ApiserverSource, &SourceSet{})); got != want {
			t.Errorf("follow %t: got %q, want %q", follow, got, want)
		}
	}
}
