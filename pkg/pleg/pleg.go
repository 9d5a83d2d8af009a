package pleg

import "k8s.io/apimachinery/pkg/types"

// PodLifeCycleEventType is the type of an event.
type PodLifeCycleEventType string

// The events.
const (
	// ContainerStarted: a container started.
	ContainerStarted PodLifeCycleEventType = "ContainerStarted"
	// ContainerDied: a container exited, or was removed before its exit was observed.
	ContainerDied PodLifeCycleEventType = "ContainerDied"
	// ContainerRemoved: a container was removed. Its ContainerDied was emitted before.
	ContainerRemoved PodLifeCycleEventType = "ContainerRemoved"
	// PodSync: a change that has no other event.
	PodSync PodLifeCycleEventType = "PodSync"
	// ContainerChanged: a container was created, or its state is unknown.
	ContainerChanged PodLifeCycleEventType = "ContainerChanged"
)

// PodLifecycleEvent is a change of a container in the runtime.
//
// kubelet: pkg/kubelet/pleg/pleg.go, where Data holds the container's ID.
type PodLifecycleEvent struct {
	// ID is the UID of the pod.
	ID types.UID
	// Type is the type of the event.
	Type PodLifeCycleEventType
	// Namespace and Name are the namespace and name of the pod in the runtime.
	Namespace, Name string
	// ContainerID is the ID of the container or sandbox; empty for PodSync.
	ContainerID string
	// Container is the name of the container; empty for a sandbox.
	Container string
	// ExitCode is set for ContainerDied. It is nil for a sandbox, or if the container was
	// removed before its exit code could be read.
	ExitCode *int32
}

// PodLifecycleEventGenerator emits the changes in the runtime.
type PodLifecycleEventGenerator interface {
	// Watch returns the channel of events. Each call returns the same channel.
	Watch() <-chan *PodLifecycleEvent
	// Healthy reports whether the generator works. The error gives the reason if not.
	Healthy() (bool, error)
	// Pods returns the pods of the runtime, ordered by UID. It returns false before the first list.
	Pods() ([]*Pod, bool)
	// Pod returns the pod with a UID, or nil if the runtime has none. It returns false as long as that is not known.
	Pod(uid types.UID) (*Pod, bool)
}

// None is the generator without a runtime. It emits no events.
type None struct{}

// Watch returns nil, a channel that never receives.
func (None) Watch() <-chan *PodLifecycleEvent { return nil }

// Healthy returns true.
func (None) Healthy() (bool, error) { return true, nil }

// Pods returns false.
func (None) Pods() ([]*Pod, bool) { return nil, false }

// Pod returns false.
func (None) Pod(types.UID) (*Pod, bool) { return nil, false }
