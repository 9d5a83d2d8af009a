package sourcetest

import (
	"testing"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Place is what a source reads. It is made empty and available, and is one source's.
//
// Names are single letters; the source's pods may have a suffix to theirs that begins
// with a hyphen, as static pods have.
type Place interface {
	// Source returns the source that reads the place. It is called once.
	Source() sources.Source
	// Put puts a pod of that name, whose container has that image, or changes it.
	Put(t *testing.T, name, image string)
	// Remove removes the pod of that name.
	Remove(t *testing.T, name string)
	// Break makes the place unavailable, and Mend available again, as it was or as it
	// was changed meanwhile.
	Break(t *testing.T)
	Mend(t *testing.T)
}
