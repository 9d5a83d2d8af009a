package apiserver

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Equal pods keep their pointers. Pods with the same UID and resourceVersion that are not equal are replaced. A list
// without changes is not pushed, except for the first.
func TestEqualPodsKeepTheirPointers(t *testing.T) {
	var pushed map[string]*v1.Pod
	s := newStore(false, func(pods []*v1.Pod) {
		pushed = make(map[string]*v1.Pod)
		for _, pod := range pods {
			pushed[pod.Name] = pod
		}
	})
	pod := func(name, message string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{}}},
			Status:     v1.PodStatus{Message: message},
		}
	}
	replace := func(pods ...any) func() error { return func() error { return s.Replace(pods, "7") } }
	held := make(map[string]*v1.Pod)
	for _, step := range []struct {
		name      string
		do        func() error
		push      bool
		same, new []string
	}{
		{name: "a first list that is empty", do: replace(), push: true},
		{name: "another that is empty", do: replace()},
		{name: "a list", do: replace(pod("a", "1"), pod("b", "1")), push: true, new: []string{"a", "b"}},
		{name: "the same list", do: replace(pod("a", "1"), pod("b", "1"))},
		{name: "a list with another b", do: replace(pod("a", "1"), pod("b", "2")), push: true, same: []string{"a"}, new: []string{"b"}},
		{name: "an event with the same b", do: func() error { return s.Update(pod("b", "2")) }},
		{name: "an event with another a", do: func() error { return s.Update(pod("a", "2")) }, push: true, same: []string{"b"}, new: []string{"a"}},
		{name: "a deletion", do: func() error { return s.Delete(pod("a", "3")) }, push: true, same: []string{"b"}},
		{name: "a list with c instead of b", do: replace(pod("c", "1")), push: true, new: []string{"c"}},
		{name: "a list without c", do: replace(), push: true},
		{name: "an addition", do: func() error { return s.Add(pod("d", "1")) }, push: true, new: []string{"d"}},
	} {
		pushed = nil
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if (pushed != nil) != step.push || pushed != nil && len(pushed) != len(step.same)+len(step.new) {
			t.Fatalf("%s: pushed %v", step.name, pushed)
		}
		for _, name := range step.same {
			if pushed[name] != held[name] {
				t.Errorf("%s: another pointer of %s, which is the same", step.name, name)
			}
		}
		for _, name := range step.new {
			if pushed[name] == nil || pushed[name] == held[name] || pushed[name].ManagedFields != nil {
				t.Errorf("%s: %s is %v", step.name, name, pushed[name])
			}
		}
		if pushed != nil {
			held = pushed
		}
	}
}

// A mirror pod of podconfigd whose status a kubelet has written is marked: its status counts then. Others keep
// their annotations.
func TestAnAdoptedMirrorPodIsMarked(t *testing.T) {
	for name, test := range map[string]struct {
		manager, subresource, own, want string
		without                         bool
	}{
		"kubelet's status":     {"kubelet", "status", "true", config.AdoptedMirror, false},
		"status of podconfigd": {"podconfigd", "status", "true", "true", false},
		"no status":            {"kubelet", "", "true", "true", false},
		"only managedFields":   {"kubelet", "status", "true", "true", true},
		"not ours":             {"kubelet", "status", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keep := range []bool{true, false} {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{}, ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: test.manager, Subresource: test.subresource},
				}}, Status: v1.PodStatus{StartTime: new(metav1.Now())}}
				if test.without {
					pod.Status.StartTime = nil
				}
				if test.own != "" {
					pod.Annotations[config.OwnMirrorAnnotationKey] = test.own
				}
				prepare(pod, keep)
				if got := pod.Annotations[config.OwnMirrorAnnotationKey]; got != test.want || len(pod.ManagedFields) > 0 != keep {
					t.Errorf("%+v: the annotation is %q, %d managedFields", test, got, len(pod.ManagedFields))
				}
			}
		})
	}
}
