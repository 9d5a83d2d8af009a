// Package sourcetest tests a source against the contract in package sources. A source
// uses it as follows:
//
//	func TestContract(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.Place { return newPlace(t) })
//	}
//
// A Place is what the source reads, with methods that change it and make it unavailable.
// It should be real: a directory, a web server, an apiserver.
package sourcetest

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Place is what a source reads. It starts empty and available, and belongs to one source.
//
// Names are single letters. The names of the source's pods may have a suffix that begins
// with a hyphen, like those of static pods.
type Place interface {
	// Source returns a source that reads the place, as after a restart with what was
	// restored. If it is called again, the source before has ended.
	Source(restored sources.Restored) sources.Source
	// Put adds or changes the pod with the name. Its container has the image.
	Put(t *testing.T, name, image string)
	// Remove removes the pod with the name.
	Remove(t *testing.T, name string)
	// Break makes the place unavailable. Mend makes it available again. Its pods are the
	// same, except for changes in the meantime.
	Break(t *testing.T)
	Mend(t *testing.T)
}

// Restored returns what a source gets after a restart if this was its last set: copies of
// the pods, with the annotations of the merge, as they come from the journal on disk.
func Restored(t *testing.T, set config.SourceSet) sources.Restored {
	t.Helper()
	restored := sources.Restored{Files: make(map[types.UID]*config.File), Attributes: maps.Clone(set.Attributes)}
	for i, pod := range set.Pods {
		if set.Files != nil {
			restored.Files[pod.UID] = set.Files[i]
		}
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		stored := &v1.Pod{}
		if err := stored.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		if stored.Annotations == nil {
			stored.Annotations = make(map[string]string)
		}
		stored.Annotations[config.ConfigSourceAnnotationKey] = "source"
		stored.Annotations[config.ConfigFirstSeenAnnotationKey] = "2026-11-21T00:00:00Z"
		restored.Pods = append(restored.Pods, stored)
	}
	return restored
}

// stopped runs a source on two pods, and returns what it gets after a restart.
func stopped(t *testing.T, place Place) sources.Restored {
	t.Helper()
	place.Put(t, "a", "1")
	place.Put(t, "b", "1")
	r := start(t, place)
	r.expect(t, "a=1 b=1")
	r.stopSource(t)
	return Restored(t, r.set)
}

func restartUnchanged(t *testing.T, place Place) {
	r := startWith(t, place, stopped(t, place))
	r.expect(t, "a=1 b=1")
	r.silent(t)
}

func restartChanged(t *testing.T, place Place) {
	restored := stopped(t, place)
	place.Put(t, "a", "2")
	place.Remove(t, "b")
	place.Put(t, "c", "1")
	r := startWith(t, place, restored)
	r.expect(t, "a=2 c=1")
	r.silent(t)
}

func restartUnavailable(t *testing.T, place Place) {
	restored := stopped(t, place)
	place.Break(t)
	r := startWith(t, place, restored)
	r.awaitDegraded(t)
	r.silent(t)
	place.Mend(t)
	place.Put(t, "a", "2")
	r.expect(t, "a=2 b=1")
}
