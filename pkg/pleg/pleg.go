// Package pleg is the pod lifecycle event generator. It emits an event for each change of a container in the container
// runtime:
//
//	runtime, err := cri.New("unix:///run/containerd/containerd.sock")
//	...
//	g := pleg.New(pleg.Options{Runtime: runtime})
//	go g.Run(ctx)
//	for event := range g.Watch() {
//		fmt.Println(event.Type, event.Namespace, event.Name, event.Container)
//	}
//
// Package pleg/cri implements the runtime with CRI. Without a runtime, use [None].
//
// # Sources of changes
//
// A [Generator] lists the sandboxes and containers of the runtime every second and compares the list with its records. If
// the runtime has an event stream, the generator applies these events to the same records, and lists the runtime rarely.
// Each change of a record emits an event. So a change that a list and an event both report is emitted once. If the event
// stream misses a change, the next list finds it.
//
// # Late reports
//
// Lists and events can arrive out of order. The state of a container goes from created to running to exited to gone. So an
// event with an earlier state is old, and the generator ignores it. A list wins against everything that was recorded before
// the list was requested: a container that it does not have is gone, and one that was gone is back.
//
// # Slow runtimes
//
// Each call to the runtime has a deadline and its own goroutine. A list that hangs delays only lists. An inspection that
// hangs delays only the events of its pod. The generator never waits for the receiver of its events.
//
// The types and rules are those of the kubelet (pkg/kubelet/pleg). The kubelet does not share records between events and
// lists: see docs/explanation/kubelet-differences.md.
package pleg

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

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

// Defaults of Options.
//
// kubelet: genericPlegRelistPeriod and genericPlegRelistThreshold in pkg/kubelet/kubelet.go.
const (
	DefaultRelistPeriod    = time.Second
	DefaultRelistThreshold = 3 * time.Minute
	// defaultCallTimeout is far below the threshold: a call that hangs is retried before the generator is unhealthy. A
	// shorter threshold reduces the timeout.
	defaultCallTimeout = DefaultRelistThreshold / 6
)

const (
	// streamSettles is the time after the opening of the event stream in which it delivers events of before.
	streamSettles = 10 * time.Second
	// announceTime is how long after a list an event may announce the same change.
	announceTime = 2 * time.Second
	// unprovenFor is how long a stream that missed a change is not trusted.
	unprovenFor = 5 * time.Minute
	// noEventsRetry is the wait before the event stream is retried if the runtime has none. An upgraded runtime can have
	// one.
	noEventsRetry = 5 * time.Minute
	// UninspectedAfter is how long the runtime may take to describe a pod before its state counts as not known.
	UninspectedAfter = 5 * time.Second
	// maxInspections is the maximum number of concurrent inspections.
	maxInspections = 32
	// defaultRetention and defaultMaxRemoved are the defaults of Options.
	defaultRetention  = time.Minute
	defaultMaxRemoved = 10000
	// maxQueue is how many emitted events may wait for their receiver. Beyond that, the generator drops the events and the
	// lists of the runtime until some are received.
	maxQueue = 10000
)

// streamRetries are the waits before the event stream is retried: 50 to 100 ms at first,
// doubled each time, up to 30 seconds.
var streamRetries = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: 15 * time.Second}

// Options configures a generator. A duration of 0 is its default.
type Options struct {
	Runtime Runtime
	// RelistPeriod is the interval between lists of the runtime.
	RelistPeriod time.Duration
	// RelistOnly means that the generator does not request the events of the runtime.
	RelistOnly bool
	// RelistThreshold is how long the runtime may not answer before the generator is unhealthy.
	RelistThreshold time.Duration
	// CallTimeout is the timeout of each call to the runtime.
	CallTimeout time.Duration
	// Retention is how long FindContainer and FindPod find what the runtime has removed, and MaxRemoved how many containers and
	// sandboxes at most.
	Retention  time.Duration
	MaxRemoved int
	// Emitted is called when events are emitted; nil for no call. It must not block.
	Emitted func()
	// Registerer registers the metrics of the generator; nil for none.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	o.RelistPeriod = cmp.Or(o.RelistPeriod, DefaultRelistPeriod)
	o.RelistThreshold = cmp.Or(o.RelistThreshold, DefaultRelistThreshold)
	o.CallTimeout = cmp.Or(o.CallTimeout, min(defaultCallTimeout, o.RelistThreshold/6))
	o.Retention, o.MaxRemoved = cmp.Or(o.Retention, defaultRetention), cmp.Or(o.MaxRemoved, defaultMaxRemoved)
	return o
}

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
