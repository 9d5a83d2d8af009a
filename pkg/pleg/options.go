package pleg

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Defaults of Options.
//
// kubelet: genericPlegRelistPeriod, genericPlegRelistThreshold and
// eventedPlegRelistPeriod in pkg/kubelet/kubelet.go.
const (
	DefaultRelistPeriod        = time.Second
	DefaultEventedRelistPeriod = 5 * time.Minute
	DefaultRelistThreshold     = 3 * time.Minute
	// DefaultCallTimeout is well below the threshold, so that a call that hangs is
	// tried again before that. A shorter threshold makes it shorter.
	DefaultCallTimeout = DefaultRelistThreshold / 6
)

const (
	// pingPeriod is how often the runtime is asked whether it is there while it is
	// not listed; oftener where the threshold is short.
	pingPeriod = 10 * time.Second
	// unimplementedRetry is the wait before the stream of events is tried again where the
	// runtime has no such thing: it may be replaced by one that does.
	unimplementedRetry = 5 * time.Minute
	// maxInspections is how many pods are inspected at once; the others wait.
	maxInspections = 32
)

// streamRetries are the waits before the stream of events is tried again: 50 to 100 ms,
// then twice as long each time up to half a minute.
var streamRetries = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: 15 * time.Second}

// Options say what a generator works with.
type Options struct {
	Runtime Runtime
	// RelistPeriod is how often the runtime is listed, EventedRelistPeriod how often
	// while it tells of events itself.
	RelistPeriod, EventedRelistPeriod time.Duration
	// RelistThreshold is after what time without an answer the generator is unhealthy.
	RelistThreshold time.Duration
	// CallTimeout is how long the runtime may take for an answer. The durations stand
	// for their defaults where they are 0.
	CallTimeout time.Duration
	// Registerer takes the generator's metrics; nil for none.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	o.RelistPeriod = cmp.Or(o.RelistPeriod, DefaultRelistPeriod)
	o.EventedRelistPeriod = cmp.Or(o.EventedRelistPeriod, DefaultEventedRelistPeriod)
	o.RelistThreshold = cmp.Or(o.RelistThreshold, DefaultRelistThreshold)
	o.CallTimeout = cmp.Or(o.CallTimeout, min(DefaultCallTimeout, o.RelistThreshold/6))
	return o
}
