package poddiff

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podtable"
)

const (
	// maxChanges is the maximum number of differences in a Summary. maxRemoved is the maximum number of removed pods that
	// are kept, to compare them with a new pod of the same name.
	maxChanges = 3
	maxRemoved = 1000
)

// Stream keeps the pods of a stream of updates. So it can describe what each update changes.
type Stream struct {
	present map[types.UID]*v1.Pod
	removed map[types.NamespacedName]*v1.Pod
}

// NewStream returns a stream without pods.
func NewStream() *Stream {
	return &Stream{present: make(map[types.UID]*v1.Pod), removed: make(map[types.NamespacedName]*v1.Pod)}
}

// Reset forgets the present pods.
func (s *Stream) Reset() { clear(s.present) }

// Take keeps the pod of an ADD, UPDATE, REMOVE, DELETE, RECONCILE or SET, and returns the change of the pod.
func (s *Stream) Take(op v1alpha1.Op, pod *v1.Pod) Change {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	before := s.present[pod.UID]
	switch op {
	case v1alpha1.OpRemove:
		delete(s.present, pod.UID)
		if len(s.removed) < maxRemoved {
			s.removed[name] = pod
		}
		return Change{Op: op, Before: pod}
	case v1alpha1.OpAdd, v1alpha1.OpSet:
		before = s.removed[name]
		delete(s.removed, name)
	}
	s.present[pod.UID] = pod
	return Change{Op: op, Before: before, After: pod}
}

// Change is the change of one pod. Before is nil for a new pod, After for a removed one. An ADD has a Before if the pod replaces
// a removed pod with the same name.
type Change struct {
	Op            v1alpha1.Op
	Before, After *v1.Pod
}

// String describes the change in one line: the images of a new pod, or the differences.
func (c Change) String() string {
	added := c.Op == v1alpha1.OpAdd || c.Op == v1alpha1.OpSet
	switch {
	case c.After == nil:
		return ""
	case c.Before != nil && added:
		if changes := Compare(c.Before, c.After); len(changes) > 0 || c.Before.UID != c.After.UID {
			return "recreated: " + Summary(changes)
		}
		return "removed and added again, unchanged"
	case c.Before != nil:
		return Summary(Compare(c.Before, c.After))
	case added:
		return strings.Join(podtable.Images(c.After), ", ")
	}
	return ""
}

// Summary joins the first maxChanges differences.
func Summary(changes []string) string {
	switch n := len(changes) - maxChanges; {
	case len(changes) == 0:
		return "only the UID"
	case n > 0:
		return strings.Join(changes[:maxChanges], "; ") + fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(changes, "; ")
}
