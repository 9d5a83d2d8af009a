// Package events writes Kubernetes Events about manifests that are Rejected, Held or Shadowed, sources that are
// degraded, and sets that the removal brake holds:
//
//	r := events.New(events.Options{Node: "node1", Client: apiserver, Sources: status, MirrorPods: mirrors})
//	err := r.Run(ctx)
//
// Each event is on the Node. An event about a manifest is also on the mirror pod of the same name, if there is one.
//
// # What is written
//
// The [Writer] reads the status every second. Each fault in it is a condition. The Writer writes one event when a
// condition begins or changes, and one when it ends. If it can't write now, because of a limit, missing permissions or an
// apiserver that does not answer, it writes later what is still true then. There is no queue, and nothing that the status
// has is lost. A condition that ends before it was written has no event.
//
// client-go's [k8s.io/client-go/tools/record.EventCorrelator] counts equal events in one object, and aggregates events
// about one manifest that differ only in their message. client-go's EventRecorder is not used, because it loses events:
// those that the apiserver rejects, those after the first 25 of an object, and all of them after 12 attempts. Its
// goroutines also can't be waited for.
//
// # Limits
//
// Options.QPS and Options.Burst limit all requests. Events about manifests have a second limit, and events about one
// condition a third one. So manifests that change all the time do not fill the apiserver.
package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
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

// requestTimeout is the maximum time for a request.
const requestTimeout = 10 * time.Second

// write writes the events that are due. It stops at the time of the next look.
func (r *Writer) write(ctx context.Context, all []due, until time.Time) {
	for _, d := range all {
		now := time.Now()
		ofManifest := d.rank() > 0
		switch {
		case ctx.Err() != nil || now.After(until) || r.failures.waiting("", now):
			return
		case d.retry.Waits(now) || r.failures.waiting(namespaceOf(&d.on), now) || ofManifest && r.manifests.TokensAt(now) < 1:
			continue
		case !r.requests.AllowN(now, 1):
			return
		}
		if r.writeOne(ctx, d) {
			d.limit.AllowN(now, 1)
			if ofManifest {
				r.manifests.AllowN(now, 1)
			}
		}
	}
}

// writeOne writes an event. It reports false if the event has to be tried again.
func (r *Writer) writeOne(ctx context.Context, d due) bool {
	if d.correlated == nil {
		r.correlating = &d.subject
		event := r.newEvent(&d.on, d.next, d.since)
		result, err := r.correlator.EventCorrelate(event)
		if err != nil { // there is no patch
			result = &record.EventCorrelateResult{Event: event}
		}
		d.correlated = result
	}
	err := r.send(ctx, d.correlated)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		r.metrics.written.WithLabelValues(d.next.reason).Inc()
		r.failures.endSeries(ctx, d, r.entries)
	case isFinal(err):
		r.metrics.failures.Inc()
		r.failures.log(ctx, err, "The apiserver rejected an event", namespaceOf(&d.on))
	default:
		r.metrics.failures.Inc()
		r.failures.addFailure(ctx, d, err, time.Now())
		return false
	}
	d.written, d.correlated, d.retry = d.next, nil, await.Backoff{}
	return true
}

// isFinal reports whether the apiserver would reject the same request again.
func isFinal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// errAnswer means that the apiserver answered with another object.
var errAnswer = errors.New("it is another object")

// send creates the event, or patches it if it was created before.
//
// client-go: recordEvent in tools/record/event.go.
func (r *Writer) send(ctx context.Context, what *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	event, path := *what.Event, "/api/v1/namespaces/"+what.Event.Namespace+"/events"
	var answer []byte
	var err error
	create := event.Count == 1
	if !create {
		answer, err = r.opts.Client.Patch(ctx, path+"/"+event.Name, types.StrategicMergePatchType, what.Patch)
		create = apierrors.IsNotFound(err) // it has expired
	}
	if create {
		event.TypeMeta, event.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ""
		body, encodeErr := json.Marshal(&event)
		if encodeErr != nil {
			return fmt.Errorf("encoding an event: %w", encodeErr)
		}
		answer, err = r.opts.Client.Post(ctx, path, body)
	}
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier request was successful, but its answer was lost
	}
	if err != nil {
		return err
	}
	var stored v1.Event
	if err := json.Unmarshal(answer, &stored); err != nil || stored.Name != event.Name {
		return fmt.Errorf("writing an event: the answer is not the event, it can be that of a proxy: %w", cmp.Or(err, errAnswer))
	}
	r.correlator.UpdateState(&stored)
	return nil
}
