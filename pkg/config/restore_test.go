package config

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fromDisk returns the pods of an update as a restart reads them.
func fromDisk(t *testing.T, pods []*v1.Pod) []*v1.Pod {
	t.Helper()
	restored := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		var err error
		if restored[i], err = throughProtobuf(p); err != nil {
			t.Fatal(err)
		}
	}
	return restored
}

func resources(p *v1.Pod) {
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")},
	}}}
}

// emptyLists has lists and maps that are empty, not nil. Read from disk they are nil.
func emptyLists(p *v1.Pod) {
	p.Labels, p.Spec.Volumes = map[string]string{}, []v1.Volume{}
	p.Status.Conditions = []v1.PodCondition{}
}

// As in the kubelet, managedFields are those that a pod came with: neither they alone nor an update
// change them. This also holds for restored pods.
func TestManagedFieldsAreThoseOfTheAdd(t *testing.T) {
	managed := func(p *v1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }
	for _, restored := range []bool{false, true} {
		s := newPodStorage()
		added := s.merge(ApiserverSource, []*v1.Pod{pod("with", "1", managed), pod("without", "2")}).podUpdates(ApiserverSource, &SourceSet{})[0].Pods
		if restored {
			s = newPodStorage()
			s.restore(ApiserverSource, fromDisk(t, added))
		}
		got := summary(s.merge(ApiserverSource, []*v1.Pod{pod("with", "1"), pod("without", "2", managed)}).podUpdates(ApiserverSource, &SourceSet{}))
		if got != "" && got != "ADD" { // the first set is always announced
			t.Errorf("restored %t: a change of managedFields alone gives %s", restored, got)
		}
		updates := s.merge(ApiserverSource, []*v1.Pod{pod("with", "1", image("2")), pod("without", "2", managed, image("2"))}).podUpdates(ApiserverSource, &SourceSet{})
		if got := summary(updates); got != "UPDATE with without" {
			t.Fatal(got)
		}
		if pods := updates[0].Pods; len(pods[0].ManagedFields) != 1 || len(pods[1].ManagedFields) != 0 {
			t.Errorf("restored %t: %v and %v", restored, pods[0].ManagedFields, pods[1].ManagedFields)
		}
	}
}

// The first set of a source after a restart gives only what changed.
func TestTheFirstSetIsComparedWithWhatWasRestored(t *testing.T) {
	for _, test := range []struct {
		name                string
		before, after, next []*v1.Pod
		want, then          string
	}{
		{"nothing changed", []*v1.Pod{pod("a", "1", resources)}, []*v1.Pod{pod("a", "1", resources)}, nil, "ADD", "REMOVE a"},
		{"an empty list is none on disk", []*v1.Pod{pod("a", "1", emptyLists)}, []*v1.Pod{pod("a", "1", emptyLists)}, []*v1.Pod{pod("a", "1", emptyLists)}, "ADD", ""},
		{"nothing before", []*v1.Pod{}, []*v1.Pod{}, []*v1.Pod{pod("a", "1")}, "ADD", "ADD a"},
		{
			"every kind of change",
			[]*v1.Pod{pod("gone", "1"), pod("kept", "2"), pod("new", "3"), pod("dying", "4"), pod("running", "5", emptyLists)},
			[]*v1.Pod{pod("kept", "2"), pod("new", "3", image("2")), pod("dying", "4", deleting), pod("running", "5", emptyLists, phase(v1.PodRunning)), pod("added", "6")},
			[]*v1.Pod{pod("kept", "2"), pod("new", "3", image("2")), pod("running", "5", emptyLists, phase(v1.PodRunning))},
			"REMOVE gone; ADD added; UPDATE new; DELETE dying; RECONCILE running", "REMOVE added dying",
		},
		{"all removed", []*v1.Pod{pod("a", "1")}, []*v1.Pod{}, nil, "REMOVE a; ADD", ""},
		{"another UID under the same name", []*v1.Pod{pod("a", "1")}, []*v1.Pod{pod("a", "2")}, nil, "REMOVE a; ADD a", "REMOVE a"},
		{"one UID twice", []*v1.Pod{pod("a", "1")}, []*v1.Pod{pod("a", "1"), pod("b", "1")}, []*v1.Pod{pod("b", "1")}, "ADD", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := newPodStorage()
			var before []*v1.Pod
			for _, u := range first.merge("file", test.before).podUpdates("file", &SourceSet{}) {
				before = append(before, u.Pods...)
			}
			storage := newPodStorage()
			storage.restore("file", fromDisk(t, before))
			if n := storage.count("file"); n != len(before) {
				t.Errorf("%d pods restored, want %d", n, len(before))
			}
			if got := summary(storage.merge("file", test.after).podUpdates("file", &SourceSet{})); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := summary(storage.merge("file", test.next).podUpdates("file", &SourceSet{})); got != test.then {
				t.Errorf("then got %q, want %q", got, test.then)
			}
		})
	}
}

// A source that holds a restored pod sends the same pointer. The time at which a pod was
// first seen is that of before the restart.
func TestHeldPodsAndAnnotationsAfterARestart(t *testing.T) {
	first := newPodStorage()
	added := first.merge("file", []*v1.Pod{pod("a", "1"), pod("b", "2")}).podUpdates("file", &SourceSet{})[0].Pods
	restored := fromDisk(t, added)
	storage := newPodStorage()
	storage.restore("file", restored)
	updates := storage.merge("file", []*v1.Pod{restored[0], pod("b", "2", image("2"))}).podUpdates("file", &SourceSet{})
	if got := summary(updates); got != "UPDATE b" {
		t.Fatal(got)
	}
	if got, want := updates[0].Pods[0].Annotations[ConfigFirstSeenAnnotationKey], added[1].Annotations[ConfigFirstSeenAnnotationKey]; got != want {
		t.Errorf("first seen %s, want %s", got, want)
	}
	if got := summary(storage.merge("file", []*v1.Pod{pod("a", "1"), pod("b", "2", image("2"))}).podUpdates("file", &SourceSet{})); got != "" {
		t.Errorf("a held pod whose manifest is good again: %q", got)
	}
}
