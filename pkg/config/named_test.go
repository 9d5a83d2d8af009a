package config

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// Programs that read the annotation know the sources of the kubelet.
func TestTheAnnotationHasTheKindOfTheSource(t *testing.T) {
	for source, want := range map[string]string{"file": "file", "file:a": "file", "http:file": "http", "api": "api"} {
		t.Run(source, func(t *testing.T) {
			updates := newPodStorage().merge(source, []*v1.Pod{pod("a", "1")}).podUpdates(source, &SourceSet{})
			if u := updates[0]; u.Source != source || u.Pods[0].Annotations[ConfigSourceAnnotationKey] != want {
				t.Errorf("%s: source %q, annotation %q", source, u.Source, u.Pods[0].Annotations[ConfigSourceAnnotationKey])
			}
		})
	}
}

// Two file sources are merged as two sources of the kubelet: a pod is identified by source and
// UID, so neither source hides, changes or removes a pod of the other, also not one with the
// same UID or name.
func TestTwoFileSourcesWithTheSamePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPodConfig()
		a, b := c.Channel("file:a"), c.Channel("file:b")
		go func() { _ = c.Run(t.Context()) }()
		expect := func(op PodOperation, source, image string) {
			t.Helper()
			u := <-c.Updates()
			if got := u.Pods[0].Spec.Containers[0].Image; u.Op != op || u.Source != source || got != image {
				t.Errorf("got %s %s %s, want %s %s %s", u.Op, u.Source, got, op, source, image)
			}
		}
		a <- SourceSet{Pods: []*v1.Pod{pod("x", "x", image("1"))}}
		expect(ADD, "file:a", "1")
		b <- SourceSet{Pods: []*v1.Pod{pod("x", "x", image("2"))}}
		expect(ADD, "file:b", "2")
		a <- SourceSet{Pods: []*v1.Pod{pod("x", "x", image("3"))}}
		expect(UPDATE, "file:a", "3")
		a <- SourceSet{}
		expect(REMOVE, "file:a", "3")
		b <- SourceSet{Pods: []*v1.Pod{pod("x", "x", image("2"))}}
		synctest.Wait()
		if n := len(c.Updates()); n != 0 {
			t.Errorf("%d updates after an unchanged set", n)
		}
		if diff := cmp.Diff([]string{"file:a", "file:b"}, c.Sources()); diff != "" {
			t.Error(diff)
		}
	})
}
