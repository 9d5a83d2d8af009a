package pleg

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

// Generator emits events from the lists and the events of a runtime.
//
// Each call to the runtime has its own goroutine, which handles the result by do. So calls that hang delay nothing else.
type Generator struct {
	opts    Options // its periods are guarded by mu
	events  chan *PodLifecycleEvent
	metrics *metrics
	// emitted has an element if the queue may have got its first event. demands has one if Await demands a list that Run
	// does not know of yet.
	emitted, demands chan struct{}
	// inspections has an element for each inspection that calls the runtime.
	inspections chan struct{}
	group       sync.WaitGroup

	// mu guards what follows. The methods without an exported name expect that the caller holds it, except for those that
	// call do.
	mu sync.Mutex
	// notes are called when mu is unlocked.
	notes []func(klog.Logger)
	queue []*PodLifecycleEvent
	// most is the limit of the queue.
	most      int
	timer     *time.Timer // nil before Run
	relisting bool
	demand    bool // Await demands a list
	// listEnded and listTook are the end and the duration of the last list.
	listEnded time.Time
	listTook  time.Duration
	// forgot is when the records last forgot what is too old.
	forgot time.Time
	// inspecting has when the running inspection of each pod began.
	inspecting map[types.UID]time.Time
	// later has the newest list of each pod that was being inspected when the list came.
	later map[types.UID]inspection
	// reinspect has the pods whose inspection failed, and when the first of the inspections that failed since began.
	reinspect map[types.UID]time.Time
	logged    string
	records   *records
	state     generatorState
	// expected has when a list showed a change of a container that no event has announced yet.
	expected map[string]time.Time
	// unread has the listed pods whose record is incomplete: their exit codes are still being requested.
	unread map[types.UID]bool
}

// New returns a generator. It does nothing before Run.
func New(opts Options) *Generator {
	g := &Generator{
		opts: opts.withDefaults(), events: make(chan *PodLifecycleEvent), most: maxQueue,
		emitted: make(chan struct{}, 1), demands: make(chan struct{}, 1), inspections: make(chan struct{}, maxInspections),
		inspecting: make(map[types.UID]time.Time), later: make(map[types.UID]inspection), reinspect: make(map[types.UID]time.Time),
		records: newRecords(), unread: make(map[types.UID]bool), expected: make(map[string]time.Time), state: generatorState{started: time.Now(), Status: Status{Events: make(map[PodLifeCycleEventType]int64)}},
	}
	g.metrics = newMetrics(opts.Registerer, g)
	return g
}

// Watch returns the channel of events.
func (g *Generator) Watch() <-chan *PodLifecycleEvent { return g.events }

// Run emits events until the context is done, and returns the cause of the context.
//
// kubelet: pkg/kubelet/pleg/generic.go Start, workerLoopIteration.
func (g *Generator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer g.group.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	g.do(ctx, func() { g.timer = timer })
	if !g.opts.RelistOnly {
		g.group.Go(func() { g.follow(ctx) })
	}
	for {
		var out chan<- *PodLifecycleEvent
		var first *PodLifecycleEvent
		g.do(ctx, func() {
			if len(g.queue) > 0 {
				out, first = g.events, g.queue[0]
			}
		})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case out <- first:
			g.do(ctx, func() {
				g.queue[0] = nil
				g.queue = g.queue[1:]
			})
		case <-g.emitted:
		case <-timer.C:
			g.do(ctx, func() { g.due(ctx) })
		case <-g.demands:
			g.do(ctx, func() { g.demanded(ctx) })
		}
	}
}

// do calls change with mu locked, unless the context is done. Then it logs: a log that blocks must not delay the events of
// the runtime, which can block too.
func (g *Generator) do(ctx context.Context, change func()) {
	g.mu.Lock()
	if ctx.Err() == nil {
		change()
	}
	notes := g.notes
	g.notes = nil
	g.mu.Unlock()
	for _, note := range notes {
		note(klog.FromContext(ctx))
	}
}

// note calls what logs when mu is unlocked.
func (g *Generator) note(logs func(klog.Logger)) { g.notes = append(g.notes, logs) }

// full reports whether too many emitted events wait for their receiver. While they do, the generator takes no events and no
// lists of the runtime.
func (g *Generator) full() bool { return len(g.queue) >= g.most }

// SetPeriods changes RelistPeriod, RelistThreshold and, with the threshold, CallTimeout, also while Run runs.
func (g *Generator) SetPeriods(ctx context.Context, period, threshold time.Duration) {
	g.do(ctx, func() {
		next := Options{RelistPeriod: period, RelistThreshold: threshold}.withDefaults()
		if next.RelistPeriod == g.opts.RelistPeriod && next.RelistThreshold == g.opts.RelistThreshold {
			return // the next list is due as before
		}
		g.opts.RelistPeriod, g.opts.RelistThreshold, g.opts.CallTimeout = next.RelistPeriod, next.RelistThreshold, next.CallTimeout
		if g.timer != nil && !g.relisting {
			g.schedule()
		}
	})
}

// due lists the runtime.
func (g *Generator) due(ctx context.Context) {
	if g.relisting {
		return
	}
	g.relisting, g.demand = true, false
	begin := time.Now()
	g.state.called = begin
	timeout := g.opts.CallTimeout
	g.group.Go(func() {
		call, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		pods, err := g.opts.Runtime.Pods(call)
		g.do(ctx, func() {
			g.relisting, g.state.called = false, time.Time{}
			g.relisted(ctx, begin, pods, err)
			g.schedule()
		})
	})
}

// schedule sets the timer. As in the kubelet, the period starts at the response, so a slow runtime has a pause between
// two calls.
func (g *Generator) schedule() {
	wait := g.opts.RelistPeriod
	if g.demand {
		wait = min(wait, g.demandPause())
	}
	g.timer.Reset(wait)
}

// relisted handles a list.
//
// kubelet: pkg/kubelet/pleg/generic.go Relist.
func (g *Generator) relisted(ctx context.Context, begin time.Time, pods []*Pod, err error) {
	now := time.Now()
	g.listEnded, g.listTook = now, now.Sub(begin)
	full := g.full()
	g.state.relist(begin, now, err, full)
	g.metrics.relists.Observe(now.Sub(begin).Seconds())
	if g.failed("Failed to list the pods of the runtime", err) {
		g.metrics.relistErrors.Inc()
		return
	}
	if full { // a later list has all changes
		return
	}
	for _, p := range pods {
		if g.records.pods[p.UID] == nil {
			g.unread[p.UID] = true
		}
	}
	listed := make(map[types.UID]*Pod, len(pods))
	for _, p := range pods {
		listed[p.UID] = p
	}
	maps.DeleteFunc(g.reinspect, func(uid types.UID, _ time.Time) bool { return listed[uid] == nil })
	if now.Sub(g.forgot) >= forgetPeriod {
		g.records.forget(now, g.opts.Retention, g.opts.MaxRemoved)
		g.forgot = now
	}
	maps.DeleteFunc(g.unread, func(uid types.UID, _ bool) bool { return listed[uid] == nil && g.inspecting[uid].IsZero() })
	known := make(map[types.UID]bool, len(g.records.pods))
	for uid := range g.records.pods {
		known[uid] = true
	}
	for uid := range g.inspecting {
		known[uid] = true // a new pod has no record before its inspection ends
	}
	for uid := range known {
		if listed[uid] == nil {
			pods = append(pods, &Pod{UID: uid})
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	g.doubt(now)
	g.reportTrust()
	for _, p := range pods {
		g.reconcile(ctx, inspection{uid: p.UID, pod: listed[p.UID], listed: begin})
	}
}

// failed logs an error if it differs from the previous one. It reports whether there is an error.
func (g *Generator) failed(what string, err error) bool {
	if err == nil {
		if g.logged != "" {
			g.logged = ""
			g.note(func(logger klog.Logger) { logger.Info("The runtime recovered") })
		}
		return false
	}
	if g.logged != err.Error() {
		g.logged = err.Error()
		g.note(func(logger klog.Logger) { logger.Error(err, what) })
	}
	return true
}

// emit appends events to the queue.
func (g *Generator) emit(events []*PodLifecycleEvent) {
	if len(events) == 0 {
		return
	}
	for _, e := range events {
		g.metrics.events.WithLabelValues(string(e.Type)).Inc()
		g.state.Events[e.Type]++
	}
	g.queue = append(g.queue, events...)
	await.Signal(g.emitted) // Run will look at the queue anyway
	g.note(func(logger klog.Logger) {
		if g.opts.Emitted != nil {
			g.opts.Emitted()
		}
		logger = logger.V(4)
		for i := 0; i < len(events) && logger.Enabled(); i++ {
			e := events[i]
			logger.Info("PLEG event", "pod", klog.KRef(e.Namespace, e.Name), "podUID", e.ID,
				"event", e.Type, "containerID", e.ContainerID, "container", e.Container)
		}
	})
}
