package pleg

import "k8s.io/apimachinery/pkg/types"

// PodLifeCycleEventType says what happened.
type PodLifeCycleEventType string

// The events.
const (
	// ContainerStarted: a container runs that did not before.
	ContainerStarted PodLifeCycleEventType = "ContainerStarted"
	// ContainerDied: a container exited, or was gone before it was seen to.
	ContainerDied PodLifeCycleEventType = "ContainerDied"
	// ContainerRemoved: a container is gone; that it died has been told.
	ContainerRemoved PodLifeCycleEventType = "ContainerRemoved"
	// PodSync: something changed that no other event says.
	PodSync PodLifeCycleEventType = "PodSync"
	// ContainerChanged: a container neither runs nor has exited: it was created, or
	// the runtime does not know.
	ContainerChanged PodLifeCycleEventType = "ContainerChanged"
)

// PodLifecycleEvent is a change in the runtime.
//
// kubelet: pkg/kubelet/pleg/pleg.go, where Data holds the container's ID.
type PodLifecycleEvent struct {
	// ID is the UID of the pod.
	ID types.UID
	// Type says what happened.
	Type PodLifeCycleEventType
	// Namespace and Name are the pod's, as the runtime has them.
	Namespace, Name string
	// ContainerID is the container's ID, or the sandbox's; empty with PodSync.
	ContainerID string
	// Container is the container's name; empty for a sandbox.
	Container string
	// ExitCode is there with ContainerDied, unless the container was gone before
	// the runtime could be asked, or is a sandbox.
	ExitCode *int32
}

// PodLifecycleEventGenerator tells of changes in the runtime.
type PodLifecycleEventGenerator interface {
	// Watch returns the channel of events, the same at each call.
	Watch() <-chan *PodLifecycleEvent
	// Healthy says whether events can be relied on, and if not, why.
	Healthy() (bool, error)
	// Pods returns the pods that the runtime has, by UID. It is false as long as they
	// have not been listed.
	Pods() ([]*Pod, bool)
}

// None is the generator where there is no runtime: it has no events.
type None struct{}

// Watch returns nil: nothing ever comes.
func (None) Watch() <-chan *PodLifecycleEvent { return nil }

// Healthy returns true: there is nothing that could fail.
func (None) Healthy() (bool, error) { return true, nil }

// Pods returns false: no pods are known.
func (None) Pods() ([]*Pod, bool) { return nil, false }
