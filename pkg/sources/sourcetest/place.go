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
	"testing"

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
