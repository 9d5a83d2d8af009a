package syncloop

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/calls"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

const (
	// syncPeriod is the interval at which the loop checks which pods are due for a sync.
	//
	// kubelet: syncTicker in pkg/kubelet/kubelet.go syncLoop.
	syncPeriod = time.Second
	// housekeepingPeriod and housekeepingWarningDuration have the values of the kubelet.
	housekeepingPeriod          = 2 * time.Second
	housekeepingWarningDuration = time.Second
	// DefaultSyncFrequency is the default minimum time between two SYNCs of a pod.
	//
	// kubelet: syncFrequency.
	DefaultSyncFrequency = time.Minute
)

// ErrUpdatesClosed is returned by Run when the channel of updates was closed.
var ErrUpdatesClosed = errors.New("the channel of pod updates is closed")

// Options configures a loop.
type Options struct {
	Handler SyncHandler
	// SourcesReady is asked by each housekeeping: a pod in the runtime is an orphan only if the sources that can have it are
	// seen. Usually it is the Handler.
	SourcesReady config.SourcesReady
	// PLEG emits the events of the runtime. nil is pleg.None.
	PLEG pleg.PodLifecycleEventGenerator
	// SyncFrequency is the minimum time between two SYNCs of a pod. 0 is
	// DefaultSyncFrequency.
	SyncFrequency time.Duration
	// Status configures the status of pods. A change of it is a RECONCILE.
	Status StatusOptions
	// Restored are the pods of each source before a restart, with their statuses. They are
	// current until the source changes them, and due for a sync like new pods. The Handler has
	// them already.
	Restored []config.PodUpdate
	// Kubelet is the kubelet of the node; nil for none.
	Kubelet Kubelet
	// Registerer registers the metrics of the loop; nil for none.
	Registerer prometheus.Registerer
}

// Kubelet is the kubelet of the node.
type Kubelet interface {
	// Present reports whether there is one.
	Present() bool
	// MirrorPod takes a mirror pod of the apiserver that is there, or that was removed.
	MirrorPod(pod *v1.Pod, removed bool)
}

// Loop is the sync loop.
type Loop struct {
	handler      SyncHandler
	pods         *podManager
	sourcesReady config.SourcesReady
	pleg         pleg.PodLifecycleEventGenerator
	queue        *syncQueue
	statuses     statuses
	// incomplete is true while more updates of the last set follow.
	incomplete bool
	metrics    *metrics
	calls      *calls.Mailbox
	backoff    map[types.UID]*await.Backoff
	orphans    []types.UID
	// found is the result of the last housekeeping.
	found   atomic.Pointer[Orphans]
	kubelet Kubelet
	// lastActive is the end of the last iteration; nil before the first.
	lastActive atomic.Pointer[time.Time]
}

// New returns a loop. It does nothing before Run.
func New(opts Options) *Loop {
	l := &Loop{
		handler: opts.Handler, pods: newPodManager(), sourcesReady: opts.SourcesReady, pleg: opts.PLEG,
		queue: newSyncQueue(cmp.Or(opts.SyncFrequency, DefaultSyncFrequency)), statuses: newStatuses(opts.Status),
		kubelet: opts.Kubelet, calls: calls.New(), backoff: make(map[types.UID]*await.Backoff),
	}
	if l.pleg == nil {
		l.pleg = pleg.None{}
	}
	for _, u := range opts.Restored {
		l.pods.applyUpdate(u)
		l.statuses.restored(u, l.pods)
		l.queue.put(u.Pods, time.Now())
	}
	l.metrics = newMetrics(opts.Registerer, l)
	return l
}

// LastActive returns the time at which the loop last ended an iteration; zero before the
// first. The sync ticker starts an iteration at least once a second.
func (l *Loop) LastActive() time.Time {
	if at := l.lastActive.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Run runs the loop until the context is done or the channel is closed. It returns the
// cause of the context, or ErrUpdatesClosed.
//
// kubelet: pkg/kubelet/kubelet.go syncLoop.
func (l *Loop) Run(ctx context.Context, updates <-chan config.PodUpdate) error {
	syncTicker := time.NewTicker(syncPeriod)
	defer syncTicker.Stop()
	housekeepingTicker := time.NewTicker(housekeepingPeriod)
	defer housekeepingTicker.Stop()
	plegCh, readings := l.pleg.Watch(), l.statuses.readings()
	l.refresh(ctx) // the addresses of the node may have been found since New
	l.reconcile(ctx)
	for {
		err := l.syncLoopIteration(ctx, updates, syncTicker.C, housekeepingTicker.C, plegCh, readings)
		if err != nil {
			return err
		}
		l.lastActive.Store(new(time.Now()))
	}
}

// syncLoopIteration takes one input from one of the channels and handles it.
//
// kubelet: pkg/kubelet/kubelet.go syncLoopIteration.
func (l *Loop) syncLoopIteration(ctx context.Context, configCh <-chan config.PodUpdate,
	syncCh, housekeepingCh <-chan time.Time, plegCh <-chan *pleg.PodLifecycleEvent, readings <-chan podstatus.Reading,
) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case u, open := <-configCh:
		if !open {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return ErrUpdatesClosed
		}
		l.metrics.iterations.WithLabelValues("config").Inc()
		l.dispatch(ctx, u)
	case e := <-plegCh:
		l.metrics.iterations.WithLabelValues("pleg").Inc()
		l.handlePLEG(ctx, e)
	case r := <-readings:
		l.metrics.iterations.WithLabelValues("status").Inc()
		l.recorded(ctx, r)
	case <-l.statuses.kubeletNotices():
		l.metrics.iterations.WithLabelValues("kubelet").Inc()
		l.takeKubelet(ctx)
	case call := <-l.calls.Calls():
		call(ctx)
	case <-syncCh:
		l.metrics.iterations.WithLabelValues("sync").Inc()
		l.syncDue(ctx)
	case <-housekeepingCh:
		l.metrics.iterations.WithLabelValues("housekeeping").Inc()
		l.housekeep(ctx)
	}
	return nil
}

// dispatch passes an update of the config to the handler.
func (l *Loop) dispatch(ctx context.Context, u config.PodUpdate) {
	logger := klog.FromContext(ctx)
	level := 2
	if u.Op == config.RECONCILE {
		level = 4
	}
	if v := logger.V(level); v.Enabled() {
		v.Info("SyncLoop "+u.Op.String(), "source", u.Source, "pods", klog.KObjSlice(u.Pods))
	}
	if u.Op.IsConfig() {
		u = l.prepareUpdate(ctx, u)
		l.incomplete = u.More
		defer l.reconcile(ctx)
	}
	if u.Change != 0 {
		l.handler.HandleSourceChange(ctx, u)
		return
	}
	switch u.Op {
	case config.ADD:
		l.queue.put(u.Pods, time.Now())
		l.handler.HandlePodAdditions(ctx, u)
	case config.UPDATE, config.DELETE:
		l.queue.put(u.Pods, time.Now())
		l.handler.HandlePodUpdates(ctx, u)
	case config.REMOVE:
		l.handler.HandlePodRemoves(ctx, u)
	case config.RECONCILE:
		l.handler.HandlePodReconcile(ctx, u)
	default:
		logger.Error(nil, "Invalid operation type received", "operation", u.Op)
	}
}

// syncDue sends a SYNC for the pods that are due. A removed pod is never due, unless
// another source has a pod with its UID.
func (l *Loop) syncDue(ctx context.Context) {
	now := time.Now()
	maps.DeleteFunc(l.backoff, func(_ types.UID, b *await.Backoff) bool { return over(b, now) })
	due := l.queue.getWork(now, l.pods)
	if len(due) == 0 {
		return
	}
	slices.SortFunc(due, config.ComparePods)
	if v := klog.FromContext(ctx).V(4); v.Enabled() {
		v.Info("SyncLoop (SYNC) pods", "total", len(due), "pods", klog.KObjSlice(due))
	}
	l.handler.HandlePodSyncs(ctx, due)
}

// housekeep runs the housekeeping.
func (l *Loop) housekeep(ctx context.Context) {
	l.refresh(ctx)
	logger := klog.FromContext(ctx)
	if l.incomplete { // a pod that its set removes and adds under another UID is no orphan in between
		logger.V(4).Info("SyncLoop (housekeeping, skipped): more updates of a set follow")
		return
	}
	start := time.Now()
	l.findOrphans(ctx)
	duration := time.Since(start)
	l.metrics.housekeeping.Observe(duration.Seconds())
	if duration > housekeepingWarningDuration {
		logger.Error(nil, "Housekeeping took longer than expected",
			"expected", housekeepingWarningDuration, "actual", duration.Round(time.Millisecond))
	}
	logger.V(4).Info("SyncLoop (housekeeping) end", "duration", duration.Round(time.Millisecond))
}

// SetSyncFrequency changes Options.SyncFrequency while Run runs. A pod that would be due later
// than with the new one gets a new time. The error is the cause of the context.
func (l *Loop) SetSyncFrequency(ctx context.Context, frequency time.Duration) error {
	return l.calls.Do(ctx, func(context.Context) error {
		l.metrics.iterations.WithLabelValues("reload").Inc()
		l.queue.setPeriod(frequency, time.Now())
		return nil
	})
}

// SyncHandler handles the inputs of the loop. The methods have the names of the kubelet.
// They take the whole update, with operation and source. So a handler can distinguish a
// DELETE from an UPDATE without looking at each pod, as the handler of the kubelet must.
//
// kubelet: pkg/kubelet/kubelet.go SyncHandler.
type SyncHandler interface {
	HandlePodAdditions(ctx context.Context, update config.PodUpdate)
	// HandlePodUpdates handles UPDATE, and DELETE, which is a graceful deletion.
	HandlePodUpdates(ctx context.Context, update config.PodUpdate)
	HandlePodRemoves(ctx context.Context, update config.PodUpdate)
	HandlePodReconcile(ctx context.Context, update config.PodUpdate)
	// HandleSourceChange handles a source that was added, or was removed with its pods. The
	// kubelet has no such method: its sources do not change while it runs.
	HandleSourceChange(ctx context.Context, update config.PodUpdate)
	// HandlePodSyncs handles unchanged pods that are due for a sync.
	HandlePodSyncs(ctx context.Context, pods []*v1.Pod)
	// HandlePodLifecycleEvent handles an event of the runtime. pod is the current pod. If no
	// source has the pod, it has only namespace, name and UID.
	HandlePodLifecycleEvent(ctx context.Context, pod *v1.Pod, event *pleg.PodLifecycleEvent)
	// HandlePodOrphans handles all pods in the runtime that are in no source. The loop calls
	// it when these pods change. They have only namespace, name and UID.
	HandlePodOrphans(ctx context.Context, pods []*v1.Pod)
}

type metrics struct {
	iterations   *prometheus.CounterVec
	housekeeping prometheus.Histogram
}

// newMetrics registers the metrics of the loop. If reg is nil, it registers none.
func newMetrics(reg prometheus.Registerer, l *Loop) *metrics {
	in := metric.In(reg, "sync_loop")
	in.GaugeFunc("orphans", "Number of pods in the container runtime that are in no source.", func() float64 { return float64(l.Orphans().Pods) })
	in.GaugeFunc("last_active_timestamp_seconds", "Unix time at which the last iteration of the sync loop ended. 0 before the first.", func() float64 {
		at := l.LastActive()
		if at.IsZero() {
			return 0
		}
		return float64(at.UnixNano()) / 1e9
	})
	return &metrics{
		iterations:   in.CounterVec("iterations_total", "Number of iterations of the sync loop, by channel.", "channel"),
		housekeeping: in.Histogram("housekeeping_duration_seconds", "Duration of housekeeping in seconds.", prometheus.ExponentialBuckets(0.0001, 10, 6)),
	}
}
