package pleg

import (
	"cmp"
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
