package journal

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Store stores sets. That of package store is on disk.
type Store interface {
	// Append adds the next set. It does not wait. show is called when the set must be shown: in the
	// order of sets, one at a time, from another goroutine.
	Append(set *Set, show func(Commit))
}

// Commit describes how to show a set.
type Commit struct {
	// Instance is the instance under which the set is shown.
	Instance string
	// Stored is true if the set has been written.
	Stored bool
}

// Source is the state of a source, except for its pods.
type Source struct {
	Name string
	// Seen is true if the source has delivered a set.
	Seen bool
	// Time is the time of its last set.
	Time time.Time
	// Attributes are the source's own, such as the ETag of its last set.
	Attributes map[string]string
}

// Recovered is what a store has at a start.
type Recovered struct {
	// Instance is the instance's ID, and Revision its newest revision.
	Instance string
	Revision int64
	// Reserved is not below any revision that an earlier process may have shown. The next
	// set is above it.
	Reserved int64
	// Pods are the state at the revision Base. Sets came after it. Of an update, they have only
	// operation, source and pods.
	Base int64
	Pods []*Pod
	// Named are those of Pods that have another revision under their name, with that revision.
	Named []*Pod
	Sets  []*Set
	// Sources are the sources at Revision, by name.
	Sources map[string]Source
}

// NewStored returns a version of a pod that was stored.
func NewStored(source string, merged *v1.Pod, status *v1.PodStatus, revision int64, file *config.File) *Pod {
	p := newPod(source, merged, status)
	p.Revision, p.File = revision, file
	return p
}
