package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrNoEvents means that a runtime has no event stream that can be used.
var ErrNoEvents = errors.New("the runtime has no event stream")

// Runtime is a container runtime. Each call returns when its context is done. A Runtime is safe for concurrent use.
type Runtime interface {
	// Pods lists every pod that has a sandbox or a container, in any state.
	Pods(ctx context.Context) ([]*Pod, error)
	// Exit returns how an exited container ended, or nil if the container is gone.
	Exit(ctx context.Context, containerID string) (*Exit, error)
	// Events calls opened when the stream is open, and then handle for each event, one at a time. Both return at once.
	// When the stream breaks, Events returns the error. It is ErrNoEvents if the runtime has no event stream.
	Events(ctx context.Context, opened func(), handle func(RuntimeEvent)) error
}

// State is the state of a container.
type State int

// The states, in the order of the life of a container.
const (
	StateNone State = iota // not recorded, or removed
	StateCreated
	StateRunning
	StateExited
	// StateUnknown: the runtime reports the state as unknown.
	StateUnknown
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"non-existent", "created", "running", "exited", "unknown"}[s]
}

// Pod is a pod in the runtime.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source from which the kubelet has the pod: file, http or api; empty if it is not known.
	//
	// kubelet: pkg/kubelet/types ConfigSourceAnnotationKey.
	Source string
	// Containers has the containers and sandboxes, including exited ones.
	Containers []Container
}

// Container is a container, or a sandbox.
type Container struct {
	ID, Name string
	// Sandbox is true for a sandbox. SandboxID is the ID of the sandbox of a container, and of a sandbox itself.
	Sandbox   bool
	SandboxID string
	State     State
	// Attempt is the number of earlier containers with the same name, or of earlier
	// sandboxes.
	Attempt   uint32
	CreatedAt time.Time
	// StartedAt and FinishedAt are zero if the runtime has not told them. A list does not.
	StartedAt, FinishedAt time.Time
	// ExitCode is set after the container exited and the exit code was read.
	ExitCode *int32
}

// Exit is the end of a container. A time is zero if it is not known.
type Exit struct {
	Code                  int32
	StartedAt, FinishedAt time.Time
}

// RuntimeEventType is the type of an event of the runtime.
type RuntimeEventType int

// The events of a runtime.
const (
	EventCreated RuntimeEventType = iota
	EventStarted
	EventStopped
	EventDeleted
)

// RuntimeEvent is an event of the runtime.
type RuntimeEvent struct {
	Type RuntimeEventType
	// At is the time of the event by the clock of the runtime, which is that of the machine; zero if it is not known.
	At          time.Time
	ContainerID string
	// Pod is the pod at about the time of the event, or nil if it is gone.
	Pod *Pod
}
