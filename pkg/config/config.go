// Package config merges the pods of several sources into one ordered sequence of
// updates, as the kubelet does.
//
//	pods := config.NewPodConfig()
//	sets := pods.Channel(config.FileSource) // the source sends its sets here
//	go pods.Run(ctx)
//	for update := range pods.Updates() {
//		handle(update.Op, update.Source, update.Pods)
//	}
//
// Each source gets its own channel from [PodConfig.Channel]. It sends its full set of pods
// each time the set changes. The pod storage compares the set with the previous set of the
// same source. The differences are sent on the channel of [PodConfig.Updates]: for one set
// at most one update of each operation, in the order REMOVE, ADD, UPDATE, DELETE,
// RECONCILE. If the first set of a source has no pods, the update is an empty ADD. It
// shows that the source has been seen.
//
// # Rules
//
// Source and UID identify a pod. A pod is updated if its spec, labels, deletion timestamp,
// grace period or annotations differ, except for the three annotations that the merge sets.
// A pod is reconciled if only its status differs, or with [PodConfig.FollowOwners] its owner
// references. If two pods of a set have the same namespace and name, the first one counts.
//
// # Sharing
//
// The merge never writes to a pod of a source, and never copies one deeply. It makes a
// shallow copy of a pod to set the annotations kubernetes.io/config.source and
// kubernetes.io/config.seen. All later stages share that copy. A pod whose pointer was in
// the previous set is not compared again, so the cost of a set depends on its changes.
//
// # Life cycle
//
// [PodConfig.Run] owns the merge and all goroutines of this package. It returns when its
// context is done and all of them have ended. One goroutine merges, so the updates of one
// set are consecutive and in order. No lock is held while an update waits to be received.
package config

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/calls"
)

// updatesBuffer is the capacity of the channel of updates. The kubelet uses the same.
const updatesBuffer = 50

// PodConfig merges the sets of several sources into one sequence of updates.
//
//	Channel("file") --> listener --+
//	Channel("http") --> listener --+--> Run: hold, merge, send --> Updates
//	Channel("api")  --> listener --+     ^
//	                                     |
//	Release, AddSource, RemoveSource, ---+
//	SetRemovalLimit, DropSets
//
// For each set that a source sends on its [PodConfig.Channel]:
//  1. The listener of the source passes the set to Run, with the name of the source.
//  2. If the set would remove too many pods, Run holds it, by the rules of [PodConfig.LimitRemovals].
//  3. Otherwise, the storage compares the set with the last one of the source, and stores the differences.
//  4. Run sends an update for each operation on [PodConfig.Updates]. It merges nothing else until all are in the channel.
//
// A held set goes on with step 3 when [PodConfig.Release] is called, or when it is due.
//
// To change sources or the limit while Run runs:
//  1. The caller puts a function into the mailbox, and waits.
//  2. Run calls it between two sets. So only the goroutine of Run uses the storage.
//
// kubelet: pkg/kubelet/config/config.go PodConfig.
type PodConfig struct {
	mux     *mux
	storage *podStorage
	updates chan PodUpdate
	// calls are requests for Run, which owns the storage.
	calls *calls.Mailbox
	// removalLimit belongs to Run once it has started. toRelease is in LimitRemovals.
	removalLimit RemovalLimit
	toRelease    func(source string, removes int) string
	// metrics are nil for none.
	metrics *mergeMetrics

	// mu guards the fields below.
	mu      sync.Mutex
	sources sets.Set[string]
	// held are the sets that would remove too many pods, by source.
	held map[string]*heldSet
}

// NewPodConfig returns a PodConfig without sources. It does nothing before Run.
func NewPodConfig() *PodConfig {
	return &PodConfig{
		mux:     newMux(),
		storage: newPodStorage(),
		updates: make(chan PodUpdate, updatesBuffer),
		sources: sets.New[string](),

		calls: calls.New(),
		held:  make(map[string]*heldSet),
	}
}

// FollowOwners makes the merge take over the owner references of pods of the apiserver that are known, unlike the kubelet. If
// nothing else changed, the pod is reconciled. It is called before Run.
func (c *PodConfig) FollowOwners() { c.storage.owners = true }

// Channel adds a source with that name if it does not exist, and returns the channel for
// its sets. Channel may be called before and during Run. A source must select on its
// context at each send, and must not close the channel. The name must not be empty. Each call returns
// the same channel, until RemoveSource or DropSets.
func (c *PodConfig) Channel(source string) chan<- SourceSet {
	if source == "" {
		panic("config: Channel: the source name is empty")
	}
	c.mu.Lock()
	c.sources.Insert(source)
	c.mu.Unlock()
	return c.mux.channel(source)
}

// Updates returns the channel of updates. It is closed when Run ends.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// Sources returns the names of all sources, in order.
func (c *PodConfig) Sources() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sets.List(c.sources)
}

// Run merges the sets of the sources until the context is done, and returns the cause of
// the context. It may be called once.
func (c *PodConfig) Run(ctx context.Context) error {
	defer close(c.updates)
	var listeners sync.WaitGroup
	listeners.Go(func() { c.mux.run(ctx) })
	defer listeners.Wait()

	for {
		settled, source := c.settled()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-settled:
			if err := c.merge(ctx, c.unhold(ctx, source)); err != nil {
				return err
			}
		case in := <-c.mux.merged:
			if c.hold(ctx, in) {
				continue
			}
			if err := c.merge(ctx, in); err != nil {
				return err
			}
		case call := <-c.calls.Calls():
			call(ctx)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// merge merges a set and sends the updates. It stops early if the context is done.
func (c *PodConfig) merge(ctx context.Context, in sourcedSet) error {
	logger := klog.FromContext(ctx)
	before, started := c.storage.count(in.source), time.Now()
	result := c.storage.merge(in.source, in.set.Pods)
	updates := result.podUpdates(in.source, &in.set)
	c.metrics.merged(started, updates)
	left := c.storage.count(in.source)
	// The cause may be a mistake, for example an unmounted directory or a list that was
	// emptied. The removal is correct, but it is logged.
	switch removed := before - left; {
	case removed > 0 && left == 0:
		logger.Info("Source removed all of its pods", "source", in.source, "origin", in.set.Origin, "removed", removed)
	case removed > left:
		logger.Info("Source removed most of its pods", "source", in.source, "origin", in.set.Origin, "removed", removed, "left", left)
	}
	for _, d := range result.duplicates {
		logger.Info("Ignoring a pod: another pod of the same set has the same name",
			"pod", klog.KObj(d), "podUID", d.UID, "source", in.source)
	}
	for i, u := range updates {
		u.Event = in.set.Event
		if i == len(updates)-1 {
			u.Attributes = in.set.Attributes
		}
		if err := c.send(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// send sends an update. It stops early if the context is done.
func (c *PodConfig) send(ctx context.Context, u PodUpdate) error {
	select {
	case c.updates <- u:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sourcedSet is a set with the name of its source.
type sourcedSet struct {
	source string
	set    SourceSet
}

// mux receives the sets of each source on its own channel and sends them all on one
// channel.
//
// kubelet: pkg/kubelet/config/mux.go.
type mux struct {
	merged chan sourcedSet

	// mu guards the fields below. No goroutine sends or waits while it holds mu.
	mu        sync.Mutex
	channels  map[string]*input
	ctx       context.Context //nolint:containedctx // the life of run, for channels made while it runs
	listeners sync.WaitGroup
}

// input is the channel of a source. stop ends the listener of the channel; it is nil without a listener. The listener
// closes stopped when it ends.
type input struct {
	sets    chan SourceSet
	stop    context.CancelFunc
	stopped chan struct{}
}

func newMux() *mux {
	return &mux{
		merged:   make(chan sourcedSet),
		channels: make(map[string]*input),
	}
}

// channel returns the channel of a source. Each call returns the same channel.
func (m *mux) channel(source string) chan SourceSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in, ok := m.channels[source]; ok {
		return in.sets
	}
	in := &input{sets: make(chan SourceSet), stopped: make(chan struct{})}
	m.channels[source] = in
	if m.ctx != nil && m.ctx.Err() == nil {
		m.listenLocked(m.ctx, source, in)
	}
	return in.sets
}

// remove forgets a source, and waits until no set of it can come any more.
func (m *mux) remove(source string) {
	m.mu.Lock()
	in := m.channels[source]
	delete(m.channels, source)
	m.mu.Unlock()
	if in != nil && in.stop != nil {
		in.stop()
		<-in.stopped
	}
}

// run starts a listener for each channel, also for channels that are added later. It
// returns when the context is done and all listeners have ended.
func (m *mux) run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	for source, in := range m.channels {
		m.listenLocked(ctx, source, in)
	}
	m.mu.Unlock()

	<-ctx.Done()
	// A channel call that saw a live context has added its listener by now.
	m.mu.Lock()
	//nolint:staticcheck // SA2001: the empty section is the barrier named above
	m.mu.Unlock()
	m.listeners.Wait()
}

func (m *mux) listenLocked(ctx context.Context, source string, in *input) {
	ctx, in.stop = context.WithCancel(ctx)
	m.listeners.Go(func() {
		defer close(in.stopped)
		defer in.stop()
		for {
			select {
			case <-ctx.Done():
				return
			case set := <-in.sets:
				select {
				case <-ctx.Done():
					return
				case m.merged <- sourcedSet{source, set}:
				}
			}
		}
	})
}
