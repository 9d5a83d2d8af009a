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
)

// Generator makes events of what a runtime says when it is listed, and of what it
// says by itself.
//
// One goroutine, that of Run, changes the records. The calls to the runtime are made
// by others, which hand it what came of them.
type Generator struct {
	opts    Options
	events  chan *PodLifecycleEvent
	metrics *metrics
	// calls are what other goroutines have for that of Run to do.
	calls chan call
	group sync.WaitGroup

	// The goroutine of Run has these for itself.
	queue      []*PodLifecycleEvent
	timer      *time.Timer
	relisting  bool
	again      bool // another list is wanted
	inspecting map[types.UID]bool
	waiting    []inspection
	// later has what the newest list has of pods that were being inspected then.
	later map[types.UID]inspection
	// reinspect are the pods whose inspection failed.
	reinspect map[types.UID]bool
	logged    string

	// mu guards the records and what the status shows.
	mu      sync.Mutex
	records *records
	state   generatorState
}

// New returns a generator. It does nothing before Run.
func New(opts Options) *Generator {
	g := &Generator{
		opts: opts.withDefaults(), events: make(chan *PodLifecycleEvent), calls: make(chan call),
		inspecting: make(map[types.UID]bool), later: make(map[types.UID]inspection), reinspect: make(map[types.UID]bool),
		records: newRecords(), state: generatorState{started: time.Now(), events: make(map[PodLifeCycleEventType]int64)},
	}
	g.metrics = newMetrics(opts.Registerer, g)
	return g
}

// Watch returns the channel of events.
func (g *Generator) Watch() <-chan *PodLifecycleEvent { return g.events }

// Run tells of events until the context is done, and returns its cause.
//
// kubelet: pkg/kubelet/pleg/generic.go Start, workerLoopIteration.
func (g *Generator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer g.group.Wait()
	defer cancel()
	g.timer = time.NewTimer(0)
	defer g.timer.Stop()
	g.group.Go(func() { g.follow(ctx) })
	for {
		var out chan<- *PodLifecycleEvent
		var first *PodLifecycleEvent
		if len(g.queue) > 0 {
			out, first = g.events, g.queue[0]
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case out <- first:
			g.queue[0] = nil
			g.queue = g.queue[1:]
		case call := <-g.calls:
			call.do(ctx)
			close(call.done)
		case <-g.timer.C:
			g.due(ctx)
		}
	}
}

// call is something for the goroutine of Run to do.
type call struct {
	do   func(ctx context.Context)
	done chan struct{}
}

// post has the goroutine of Run do something, and returns once it has.
func (g *Generator) post(ctx context.Context, do func(ctx context.Context)) {
	c := call{do: do, done: make(chan struct{})}
	select {
	case <-ctx.Done():
	case g.calls <- c:
		<-c.done
	}
}

// due lists the runtime, or while that is not due yet asks it whether it is there.
func (g *Generator) due(ctx context.Context) {
	if g.relisting {
		return
	}
	g.relisting = true
	begin := time.Now()
	list := g.again || g.relistIn(begin) <= 0
	g.again = g.again && !list
	g.group.Go(func() {
		call, cancel := context.WithTimeout(ctx, g.opts.CallTimeout)
		defer cancel()
		var pods []*Pod
		var err error
		if list {
			pods, err = g.opts.Runtime.Pods(call)
		} else {
			err = g.opts.Runtime.Ping(call)
		}
		g.post(ctx, func(ctx context.Context) {
			g.relisting = false
			if list {
				g.relisted(ctx, begin, pods, err)
			} else {
				g.pinged(ctx, begin, err)
			}
			g.schedule()
		})
	})
}

// relistIn returns in what time the next list is due.
func (g *Generator) relistIn(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.state
	if s.listed.IsZero() || s.lastError != "" {
		return 0
	}
	period := g.opts.RelistPeriod
	if g.seldomLocked(now) {
		period = g.opts.EventedRelistPeriod
	}
	return s.listed.Add(period).Sub(now)
}

// seldomLocked tells whether events are relied on. They are not while a container is
// about to be started: containerd has no event for one that can't be.
func (g *Generator) seldomLocked(now time.Time) bool {
	return g.state.evented && !g.records.starting(now)
}

// schedule sets the timer: to the period after the answer, as the kubelet does, so
// that a slow runtime is not asked without a pause.
func (g *Generator) schedule() {
	wait := g.opts.RelistPeriod
	g.mu.Lock()
	if g.seldomLocked(time.Now()) && g.state.lastError == "" && !g.again {
		wait = min(pingPeriod, g.opts.RelistThreshold/10, g.opts.EventedRelistPeriod)
	}
	g.mu.Unlock()
	g.timer.Reset(wait)
}

// relistAfter has the runtime listed once more in that time, or if it is being listed
// then, a period later.
func (g *Generator) relistAfter(wait time.Duration) {
	if g.again && wait > 0 {
		return // it is already, and not put off
	}
	g.again = true
	g.timer.Reset(wait)
}

// relisted takes a list.
//
// kubelet: pkg/kubelet/pleg/generic.go Relist.
func (g *Generator) relisted(ctx context.Context, begin time.Time, pods []*Pod, err error) {
	now := time.Now()
	g.mu.Lock()
	before := g.state.evented
	g.state.relist(begin, now, err)
	evented := g.state.evented && !before
	g.mu.Unlock()
	if evented {
		klog.FromContext(ctx).Info("The runtime tells of events; relisting seldom", "period", g.opts.EventedRelistPeriod)
	}
	g.metrics.relists.Observe(now.Sub(begin).Seconds())
	if g.failed(ctx, "Listing the runtime's pods failed", err) {
		g.metrics.relistErrors.Inc()
		return
	}
	listed := make(map[types.UID]*Pod, len(pods))
	for _, p := range pods {
		listed[p.UID] = p
	}
	maps.DeleteFunc(g.reinspect, func(uid types.UID, _ bool) bool { return listed[uid] == nil })
	g.mu.Lock()
	g.records.forget(now)
	for uid := range g.records.pods {
		if listed[uid] == nil {
			pods = append(pods, &Pod{UID: uid})
		}
	}
	g.mu.Unlock()
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, p := range pods {
		g.reconcile(ctx, inspection{uid: p.UID, pod: listed[p.UID], listed: begin})
	}
}

// failed logs an error, once for each that is another than the one before, and tells
// whether there was one.
func (g *Generator) failed(ctx context.Context, what string, err error) bool {
	logger := klog.FromContext(ctx)
	if err == nil {
		if g.logged != "" {
			g.logged = ""
			logger.Info("The runtime answers again")
		}
		return false
	}
	if g.logged != err.Error() && ctx.Err() == nil {
		g.logged = err.Error()
		logger.Error(err, what)
	}
	return true
}

// pinged takes the answer to a ping. One that failed makes the lists go on, for the
// stream of events may be of no use either.
func (g *Generator) pinged(ctx context.Context, begin time.Time, err error) {
	g.mu.Lock()
	g.state.ping(begin, err)
	g.mu.Unlock()
	g.failed(ctx, "Asking the runtime for its version failed", err)
}

// emit puts events into the queue.
func (g *Generator) emit(ctx context.Context, events []*PodLifecycleEvent) {
	logger := klog.FromContext(ctx).V(4)
	for _, e := range events {
		g.metrics.events.WithLabelValues(string(e.Type)).Inc()
		if logger.Enabled() {
			logger.Info("PLEG event", "pod", klog.KRef(e.Namespace, e.Name), "podUID", e.ID,
				"event", e.Type, "containerID", e.ContainerID, "container", e.Container)
		}
	}
	g.mu.Lock()
	for _, e := range events {
		g.state.events[e.Type]++
	}
	g.mu.Unlock()
	g.queue = append(g.queue, events...)
}
