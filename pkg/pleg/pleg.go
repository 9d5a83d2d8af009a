// Package pleg has the events of the pod lifecycle event generator: what changed
// in the container runtime, by pod.
//
// The types are the kubelet's (pkg/kubelet/pleg/pleg.go). Generators that ask a
// runtime are to follow; until then a loop without one gets [None].
package pleg

import "k8s.io/apimachinery/pkg/types"

// PodLifeCycleEventType says what happened.
type PodLifeCycleEventType string

// The events.
const (
	// ContainerStarted: a container runs that did not before.
	ContainerStarted PodLifeCycleEventType = "ContainerStarted"
	// ContainerDied: a container exited.
	ContainerDied PodLifeCycleEventType = "ContainerDied"
	// ContainerRemoved: a container that had exited is gone.
	ContainerRemoved PodLifeCycleEventType = "ContainerRemoved"
	// PodSync: something changed that no other event says.
	PodSync PodLifeCycleEventType = "PodSync"
	// ContainerChanged: the state of a container is not known.
	ContainerChanged PodLifeCycleEventType = "ContainerChanged"
)

// PodLifecycleEvent is a change in the runtime.
type PodLifecycleEvent struct {
	// ID is the UID of the pod.
	ID types.UID
	// Type says what happened.
	Type PodLifeCycleEventType
	// Data is what the event has to say beside that, as a rule the container's ID.
	Data any
}

// PodLifecycleEventGenerator tells of changes in the runtime.
type PodLifecycleEventGenerator interface {
	// Watch returns the channel of events, the same at each call.
	Watch() <-chan *PodLifecycleEvent
	// Healthy says whether events can be relied on, and if not, why.
	Healthy() (bool, error)
}

// None is the generator where there is no runtime: it has no events.
type None struct{}

// Watch returns nil: nothing ever comes.
func (None) Watch() <-chan *PodLifecycleEvent { return nil }

// Healthy returns true: there is nothing that could fail.
func (None) Healthy() (bool, error) { return true, nil }
