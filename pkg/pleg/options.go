package pleg

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
)

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
