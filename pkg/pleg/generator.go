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

	"github.com/podconfigd/podconfigd/internal/mailbox"
)

// Generator emits events from the lists and the events of a runtime.
//
// Only the goroutine of Run changes the records. Other goroutines call the runtime and pass it the results.
type Generator struct {
	opts    Options
	events  chan *PodLifecycleEvent
	metrics *metrics
	// calls has the functions that other goroutines pass to the goroutine of Run.
	calls *mailbox.Mailbox
	inbox *inbox
	// demands has an element if Await demands a list that Run does not know of yet.
	demands chan struct{}
	group   sync.WaitGroup

	// Only the goroutine of Run uses the following fields.
	queue     []*PodLifecycleEvent
	timer     *time.Timer
	relisting bool
	again     bool // another list is due
	demand    bool // Await demands a list
	// listEnded and listTook are the end and the duration of the last list.
	listEnded  time.Time
	listTook   time.Duration
	inspecting map[types.UID]bool
	waiting    []inspection
	// later has the newest list of each pod that was being inspected when the list came.
	later map[types.UID]inspection
	// reinspect has the pods whose inspection failed.
	reinspect map[types.UID]bool
	logged    string

	// mu guards what follows.
	mu      sync.Mutex
	records *records
	state   generatorState
	// unread has the listed pods whose record is incomplete: their exit codes are still being requested.
	unread map[types.UID]bool
}

// New returns a generator. It does nothing before Run.
func New(opts Options) *Generator {
	g := &Generator{
		opts: opts.withDefaults(), events: make(chan *PodLifecycleEvent), calls: mailbox.New(), inbox: newInbox(), demands: make(chan struct{}, 1),
		inspecting: make(map[types.UID]bool), later: make(map[types.UID]inspection), reinspect: make(map[types.UID]bool),
		records: newRecords(), unread: make(map[types.UID]bool), state: generatorState{started: time.Now(), events: make(map[PodLifeCycleEventType]int64)},
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
	g.timer = time.NewTimer(0)
	defer g.timer.Stop()
	if !g.opts.RelistOnly {
		g.group.Go(func() { g.follow(ctx) })
	}
	for {
		var out chan<- *PodLifecycleEvent
		var first *PodLifecycleEvent
		if len(g.queue) > 0 {
			out, first = g.events, g.queue[0]
		}
		received := g.inbox.ready
		if g.full() {
			received = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case out <- first:
			g.queue[0] = nil
			g.queue = g.queue[1:]
		case call := <-g.calls.Calls():
			call(ctx)
		case <-received:
			g.receive(ctx)
		case <-g.timer.C:
			g.due(ctx)
		case <-g.demands:
			g.demanded(ctx)
		}
	}
}

// full reports whether too many emitted events wait for their receiver. While they do, the generator only pings the
// runtime.
func (g *Generator) full() bool { return len(g.queue) >= maxQueue }

// post executes do in the goroutine of Run. It returns when do has ended, or reports false if the context ended first.
func (g *Generator) post(ctx context.Context, do func(ctx context.Context)) (ended bool) {
	return g.calls.Do(ctx, func(ctx context.Context) error {
		do(ctx)
		return nil
	}) == nil
}

// SetPeriods changes RelistPeriod, RelistThreshold and, with the threshold, CallTimeout while
// Run runs.
func (g *Generator) SetPeriods(ctx context.Context, period, threshold time.Duration) {
	g.post(ctx, func(context.Context) {
		next := Options{RelistPeriod: period, RelistThreshold: threshold}.withDefaults()
		g.mu.Lock() // the goroutine of Run reads these options without the lock, all others with it
		g.opts.RelistPeriod, g.opts.RelistThreshold, g.opts.CallTimeout = next.RelistPeriod, next.RelistThreshold, next.CallTimeout
		g.mu.Unlock()
		if !g.relisting {
			g.schedule()
		}
	})
}

// due lists the runtime if a list is due, and otherwise pings it.
func (g *Generator) due(ctx context.Context) {
	if g.relisting {
		return
	}
	g.relisting = true
	begin := time.Now()
	g.calling(begin)
	list := !g.full() && (g.again || g.demand || g.relistIn(begin) <= 0)
	g.again, g.demand = g.again && !list, g.demand && !list
	timeout := g.opts.CallTimeout
	g.group.Go(func() {
		call, cancel := context.WithTimeout(ctx, timeout)
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
			g.calling(time.Time{})
			if list {
				g.relisted(ctx, begin, pods, err)
			} else {
				g.pinged(ctx, begin, err)
			}
			g.schedule()
		})
	})
}

// calling records when the current list or ping was requested; zero for none.
func (g *Generator) calling(since time.Time) {
	g.mu.Lock()
	g.state.called = since
	g.mu.Unlock()
}

// relistIn returns the time until the next list.
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

// seldomLocked reports whether the generator relies on events and lists rarely. While a container is about to start, it
// lists at each period: containerd sends no event if the start fails.
func (g *Generator) seldomLocked(now time.Time) bool {
	return g.state.evented && !g.records.starting(now)
}

// schedule sets the timer. As in the kubelet, the period starts at the response, so a slow runtime has a pause between
// two calls.
func (g *Generator) schedule() {
	wait := g.opts.RelistPeriod
	g.mu.Lock()
	if g.seldomLocked(time.Now()) && g.state.lastError == "" && !g.again {
		wait = min(pingPeriod, g.opts.RelistThreshold/10, g.opts.EventedRelistPeriod)
	}
	g.mu.Unlock()
	if g.demand && !g.full() {
		wait = min(wait, g.demandPause())
	}
	g.timer.Reset(wait)
}

// relistAfter schedules one more list after the wait. If a list is running at that time, the new one follows a period later.
func (g *Generator) relistAfter(wait time.Duration) {
	if g.again && wait > 0 {
		return // a list is already due, do not delay it
	}
	g.again = true
	g.timer.Reset(wait)
}

// relisted handles a list.
//
// kubelet: pkg/kubelet/pleg/generic.go Relist.
func (g *Generator) relisted(ctx context.Context, begin time.Time, pods []*Pod, err error) {
	now := time.Now()
	g.listEnded, g.listTook = now, now.Sub(begin)
	g.mu.Lock()
	before, first := g.state.evented, g.state.listed.IsZero()
	g.state.relist(begin, now, err)
	evented := g.state.evented && !before
	for _, p := range pods {
		if first || g.records.pods[p.UID] == nil { // earlier events made a record of single containers
			g.unread[p.UID] = true
		}
	}
	g.mu.Unlock()
	if evented {
		klog.FromContext(ctx).Info("Receiving events from the runtime, relisting at a longer period", "period", g.opts.EventedRelistPeriod)
	}
	g.metrics.relists.Observe(now.Sub(begin).Seconds())
	if g.failed(ctx, "Failed to list the pods of the runtime", err) {
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
	maps.DeleteFunc(g.unread, func(uid types.UID, _ bool) bool { return listed[uid] == nil && !g.inspecting[uid] })
	known := make(map[types.UID]bool, len(g.records.pods))
	for uid := range g.records.pods {
		known[uid] = true
	}
	g.mu.Unlock()
	maps.Copy(known, g.inspecting) // a new pod has no record before its inspection ends
	for uid := range known {
		if listed[uid] == nil {
			pods = append(pods, &Pod{UID: uid})
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, p := range pods {
		g.reconcile(ctx, inspection{uid: p.UID, pod: listed[p.UID], listed: begin})
	}
}

// failed logs an error if it differs from the previous one. It reports whether there is an error.
func (g *Generator) failed(ctx context.Context, what string, err error) bool {
	logger := klog.FromContext(ctx)
	if err == nil {
		if g.logged != "" {
			g.logged = ""
			logger.Info("The runtime recovered")
		}
		return false
	}
	if g.logged != err.Error() && ctx.Err() == nil {
		g.logged = err.Error()
		logger.Error(err, what)
	}
	return true
}

// pinged handles the result of a ping. After a failed ping, the generator lists at each
// period, because the event stream may have failed too.
func (g *Generator) pinged(ctx context.Context, begin time.Time, err error) {
	g.mu.Lock()
	g.state.ping(begin, err)
	g.mu.Unlock()
	g.failed(ctx, "Failed to request the version of the runtime", err)
}

// emit appends events to the queue.
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
	if len(events) > 0 && g.opts.Emitted != nil {
		g.opts.Emitted()
	}
}
