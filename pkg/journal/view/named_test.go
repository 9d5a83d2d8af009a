package view

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// The pods of "file:a" have the annotation of the kubelet, "file". The updates that the sync
// loop adds have the source of the pod nevertheless, so that a subscriber of one source gets
// them.
func TestUpdatesOfTheLoopHaveTheSourceOfThePod(t *testing.T) {
	j := newJournal(journal.Options{Sources: []string{"file", "file:a"}})
	named := update(config.ADD, "a")
	named.Source = "file:a"
	appendSet(j, named)
	appendSet(j, update(config.ADD, "b"))
	ops := journal.Operations{config.SYNC: true, config.PLEG: true}
	c := j.watch(StreamOptions{Ops: ops, Options: Options{Selector: Selector{Source: "file:a"}}})
	other := j.watch(StreamOptions{Ops: ops, Options: Options{Selector: Selector{Source: "file"}}})
	expect(t, c, "3 BOOKMARK synced ready")
	expect(t, other, "3 BOOKMARK synced ready")
	j.HandlePodSyncs(t.Context(), named.Pods)
	j.RecordEvent(named.Pods[0], &v1alpha1.Event{PodUID: "a", Type: string(pleg.ContainerStarted)})
	expect(t, c, "4 SYNC a", "5 PLEG a")
	expect(t, other)
}

// Of the pods of a name or a UID, that of the first source counts: "file" before "file:a",
// and that before "http".
func TestTheOrderOfNamedSources(t *testing.T) {
	j := newJournal(journal.Options{Sources: []string{"file", "file:a", "http"}})
	sources := []string{"http", "file:b", "file:a", "file", "api"}
	for _, source := range sources {
		u := update(config.ADD, "x")
		u.Source = source
		appendSet(j, u)
		p := j.ByUID("x")
		if p.Source != source || j.ByName(nameOf(p.Object)).Source != source {
			t.Errorf("with %s: the UID is of %s, the name of %s", source, p.Source, j.ByName(nameOf(p.Object)).Source)
		}
	}
	for i := len(sources) - 1; i > 0; i-- {
		u := update(config.REMOVE, "x")
		u.Source = sources[i]
		appendSet(j, u)
		if p := j.ByUID("x"); p.Source != sources[i-1] {
			t.Errorf("without %s: the UID is of %s", sources[i], p.Source)
		}
	}
}

func nameOf(pod *v1.Pod) (name struct{ Namespace, Name string }) {
	name.Namespace, name.Name = pod.Namespace, pod.Name
	return name
}
