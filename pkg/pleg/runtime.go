package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrNoEvents is returned by a runtime that can only be listed.
var ErrNoEvents = errors.New("the runtime does not tell of events")

// Runtime is a container runtime. Each call ends with its context. It is used by
// several goroutines at once.
type Runtime interface {
	// Pods lists every pod that has a sandbox or a container, in whatever state.
	Pods(ctx context.Context) ([]*Pod, error)
	// ExitCode returns the exit code of a container that has exited; nil if it is gone.
	ExitCode(ctx context.Context, containerID string) (*int32, error)
	// Ping returns nil if the runtime answers.
	Ping(ctx context.Context) error
	// Events calls opened once it listens, then handle for each event, one at a time,
	// until the stream breaks. It never returns nil; ErrNoEvents says that there is no
	// such thing.
	Events(ctx context.Context, opened func(), handle func(RuntimeEvent)) error
}

// State is what is known of a container.
type State int

// The states, in the order in which a container goes through them.
const (
	StateNone State = iota // not known, or no longer
	StateCreated
	StateRunning
	StateExited
	// StateUnknown: the runtime does not know.
	StateUnknown
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"non-existent", "created", "running", "exited", "unknown"}[s]
}

// Pod is what a runtime has of a pod.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Containers are the containers and sandboxes, those that exited too.
	Containers []Container
}

// Container is a container, or a sandbox.
type Container struct {
	ID, Name string
	// Sandbox: it is the pod's sandbox, which counts as a container.
	Sandbox bool
	State   State
	// Attempt is how often its like was created before.
	Attempt   uint32
	CreatedAt time.Time
	// ExitCode is known after the container exited, if the runtime has been asked.
	ExitCode *int32
}

// RuntimeEventType says what a runtime tells of a container.
type RuntimeEventType int

// The events of a runtime.
const (
	EventCreated RuntimeEventType = iota
	EventStarted
	EventStopped
	EventDeleted
)

// RuntimeEvent is what a runtime tells by itself.
type RuntimeEvent struct {
	Type        RuntimeEventType
	ContainerID string
	// Pod is the whole pod at about that time; nil if it is gone.
	Pod *Pod
}
