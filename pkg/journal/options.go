package journal

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Mode is how a reader is told of changes.
//
// kubelet: PodConfigNotificationMode in pkg/kubelet/config/config.go, up to v1.34.
type Mode string

// The modes.
const (
	// Incremental: what changed, as the merge emits it.
	Incremental Mode = "incremental"
	// SnapshotAndUpdates: all pods as a SET when some came or went, and UPDATE and
	// DELETE for those that changed.
	SnapshotAndUpdates Mode = "snapshot-and-updates"
	// Snapshot: all pods as a SET at each change.
	Snapshot Mode = "snapshot"
)

// ParseMode returns the mode of that name; Incremental for none.
func ParseMode(name string) (Mode, error) {
	modes := []Mode{Incremental, SnapshotAndUpdates, Snapshot}
	if name == "" {
		return Incremental, nil
	}
	if !slices.Contains(modes, Mode(name)) {
		return "", fmt.Errorf("unknown mode %q: want one of %v", name, modes)
	}
	return Mode(name), nil
}

// Operations is a set of operations.
type Operations map[config.PodOperation]bool

// DefaultOperations are those that a reader gets that does not say which: the
// config operations and SET.
func DefaultOperations() Operations {
	return Operations{
		config.ADD: true, config.DELETE: true, config.REMOVE: true, config.UPDATE: true,
		config.RECONCILE: true, config.SET: true,
	}
}

// WatchOptions say what a reader wants.
type WatchOptions struct {
	Mode Mode
	// Instance and Since say where to resume; Instance may be left out, and so may
	// both: then the present state comes first.
	Instance string
	Since    *int64
	// Ops are the operations wanted; nil stands for DefaultOperations. BOOKMARK comes
	// in any case.
	Ops Operations
	// Selector is which pods are wanted; its zero value is all.
	Selector Selector
	// Behind is what the reader is given where its place is gone.
	Behind Behind
	// ByName has the reader told of what names stand for, as Named has them: a name that
	// comes to stand for a pod is an ADD, one that ceases to a REMOVE, all else an
	// UPDATE. It goes with the mode Incremental only.
	ByName bool
	// Reader says who reads, for the status.
	Reader Reader
}

// Behind is what a reader is given that has fallen out of the ring, or that asks to
// resume where updates are gone.
type Behind int

const (
	// Reset is a frame with Reset, and the present state.
	Reset Behind = iota
	// CatchUp is what it has missed in sum, as REMOVE, ADD and UPDATE. This is for readers
	// whose protocol can't have them forget; it takes a list of what they hold.
	CatchUp
	// Fail is a CompactedError from Next.
	Fail
)

// CompactedError says that what was asked for is gone.
type CompactedError struct{ message string }

// Error says which revision is gone.
func (e *CompactedError) Error() string { return e.message }

// Reader is who reads.
type Reader struct {
	PID       int32
	UID       *uint32
	UserAgent string
}

// Selector selects pods.
type Selector struct {
	Source, Namespace string
	Labels            labels.Selector
	Fields            fields.Selector
	// NoMirrorPods leaves out the pods by which a kubelet shows static pods to the
	// apiserver.
	NoMirrorPods bool
}

// everything tells whether the selector selects all pods.
func (s *Selector) everything() bool {
	return s.Source == "" && s.Namespace == "" && !s.NoMirrorPods &&
		(s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// takes tells whether the entry is to this selector as it is.
func (s *Selector) takes(e *entry) bool {
	all := *s
	all.NoMirrorPods = s.NoMirrorPods && e.mirrors
	return all.everything()
}

// Matches tells whether the pod is selected.
func (s *Selector) Matches(p *Pod) bool {
	switch {
	case s.Source != "" && s.Source != p.Source:
		return false
	case s.Namespace != "" && s.Namespace != p.Object.Namespace:
		return false
	case s.Labels != nil && !s.Labels.Matches(labels.Set(p.Object.Labels)):
		return false
	case s.Fields != nil && !s.Fields.Empty() && !s.Fields.Matches(podfields.Of(p.Object)):
		return false
	case s.NoMirrorPods && isMirrorPod(p.Object):
		return false
	}
	return true
}

// kubelet: IsMirrorPod in pkg/kubelet/types/pod_update.go.
func isMirrorPod(pod *v1.Pod) bool {
	_, ok := pod.Annotations[v1.MirrorPodAnnotationKey]
	return ok
}

// filter returns the pods that are selected.
func (s *Selector) filter(pods []*Pod) []*Pod {
	if s.everything() {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return !s.Matches(p) })
}
