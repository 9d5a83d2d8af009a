package events

import (
	"cmp"
	"context"
	"math"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
)

const (
	// period is the interval between looks at the status.
	period = time.Second
	// Of the events about manifests, manifestBurst are written at once, and then one each manifestEvery. The log of
	// verdicts has the same limits.
	manifestBurst = 200
	manifestEvery = 10 * time.Second
	// cacheSize is the number of events that the correlator knows.
	cacheSize = 1024
)

// Defaults of Options.QPS and Options.Burst.
//
// kubelet: eventRecordQPS and eventBurst of KubeletConfiguration.
const (
	DefaultQPS   = 50
	DefaultBurst = 100
)

// Options configure a Writer.
type Options struct {
	Node   types.NodeName
	Client Client
	// Sources returns the status of the sources. A source with Held is not degraded for that reason alone.
	Sources func() []v1alpha1.SourceStatus
	// MirrorPods returns the mirror pods of the node.
	MirrorPods func() map[types.NamespacedName]*v1.Pod
	// QPS and Burst limit the requests. A QPS of 0 is no limit, a Burst of 0 is DefaultBurst.
	QPS, Burst int
	// Registerer is for metrics; nil for none.
	Registerer prometheus.Registerer
}

// Client sends JSON to paths of the apiserver, and returns the answers.
type Client interface {
	Post(ctx context.Context, path string, body []byte) ([]byte, error)
	Patch(ctx context.Context, path string, patch types.PatchType, body []byte) ([]byte, error)
}

// Writer writes the events. Run is its only goroutine.
type Writer struct {
	opts    Options
	metrics *metrics
	// limits has the QPS and the burst that Run has not taken yet.
	limits atomic.Pointer[[2]int]

	// Only Run uses the following fields.
	entries     map[key]*entry
	correlator  *record.EventCorrelator
	correlating *subject // of the event that correlator handles now
	requests    *rate.Limiter
	manifests   *rate.Limiter
	failures    failures
	// serial is the number in the name of the last event: a time in nanoseconds.
	serial int64
}

type metrics struct {
	written  *prometheus.CounterVec
	failures prometheus.Counter
	pending  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "events")
	return &metrics{
		written:  in.CounterVec("written_total", "Events that were written to the apiserver, by reason.", "reason", reasons...),
		failures: in.Counter("failures_total", "Events that could not be written. They are tried again."),
		pending:  in.Gauge("pending", "Events that are not written yet."),
	}
}

// New returns a Writer.
func New(opts Options) *Writer {
	r := &Writer{
		opts: opts, metrics: newMetrics(opts.Registerer), entries: make(map[key]*entry), failures: newFailures(),
		requests: rate.NewLimiter(0, 0), manifests: rate.NewLimiter(rate.Every(manifestEvery), manifestBurst),
	}
	r.correlator = record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
		LRUCacheSize: cacheSize,
		// Events are aggregated by manifest, not by node.
		KeyFunc: func(event *v1.Event) (aggregate, local string) {
			aggregate, local = record.EventAggregatorByReasonFunc(event)
			s := r.correlating
			return aggregate + "\x00" + s.source + "\x00" + s.path + "\x00" + s.namespace + "\x00" + s.name, local
		},
		// The correlator would drop events. The Writer limits them itself, and loses none.
		BurstSize: math.MaxInt32, QPS: math.MaxInt32,
	})
	r.SetLimits(opts.QPS, opts.Burst)
	return r
}

// SetLimits changes the limits of requests, also while Run runs.
func (r *Writer) SetLimits(qps, burst int) { r.limits.Store(&[2]int{qps, burst}) }

// Run writes events until the context is done. It returns the cause of the context.
func (r *Writer) Run(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		r.takeLimits()
		now := time.Now()
		r.write(ctx, r.look(now), now.Add(period))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (r *Writer) takeLimits() {
	limits := r.limits.Swap(nil)
	if limits == nil {
		return
	}
	qps := rate.Inf
	if limits[0] > 0 {
		qps = rate.Limit(limits[0])
	}
	r.requests.SetLimit(qps)
	r.requests.SetBurst(cmp.Or(limits[1], DefaultBurst))
}
