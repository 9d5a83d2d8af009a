package view

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// ObjectsOptions are the options of Objects.
type ObjectsOptions struct {
	Kind journal.Kind
	// Match selects objects; nil selects all.
	Match func(*journal.Object) bool
	// Since is the revision to resume from; nil to start with the current objects.
	Since *int64
	// Client is for the status.
	Client journal.Client
	// scope is what the subscriber sees; nil for everything. It sees the namespaces in which it
	// sees a pod.
	scope *Scope
}

// ObjectEvent is the change of an object: an ADD, an UPDATE or a REMOVE, or a BOOKMARK,
// which has no object. A client can resume after each event.
type ObjectEvent struct {
	Op       config.PodOperation
	Object   *journal.Object
	Revision int64
	// InitialSyncComplete is true for the bookmark after the current objects.
	InitialSyncComplete bool
}

// ObjectsCursor is a subscription to the nodes or the namespaces. Its methods belong to one
// goroutine.
type ObjectsCursor struct {
	ObjectsOptions

	journal    *journal.Journal
	subscriber *journal.Subscriber
	// failed is why the subscription can't start.
	failed error
	// current are the objects at position. pods is the number of pods that the subscriber
	// sees in each namespace, unless it sees all.
	current  map[string]*journal.Object
	pods     map[string]int
	position int64
	// sent is the newest revision that the subscriber got. Earlier events are not sent.
	sent int64
	// first are the events of the current objects, until they are returned.
	first []ObjectEvent
	sets  []*journal.Set
}

// Objects starts a subscription to the nodes or the namespaces. The caller must close it.
// A subscriber that can't resume, or falls behind, gets a CompactedError from Next.
func Objects(j *journal.Journal, opts ObjectsOptions) *ObjectsCursor {
	c := &ObjectsCursor{ObjectsOptions: opts, journal: j, current: make(map[string]*journal.Object)}
	c.subscriber = j.Subscribe(string(IncrementalMode), nil, opts.Client)
	if c.failed = c.start(); c.failed != nil {
		c.subscriber.Reset(c.failed)
	}
	c.subscriber.MoveTo(c.position)
	return c
}

// Close ends the subscription.
func (c *ObjectsCursor) Close() { c.subscriber.Close() }

func (c *ObjectsCursor) start() error {
	at := int64(0)
	if c.Since != nil {
		at = *c.Since
		if err := cmp.Or(c.journal.ObjectsResumable(at), c.scope.resumable(at)); err != nil {
			return err
		}
	}
	// The events of a set describe the whole set. So within a set, the subscription
	// starts before it.
	objects, revision, err := c.journal.Objects(c.Kind, c.journal.Boundary(at))
	if err != nil {
		return err
	}
	c.position, c.sent = revision, max(revision, at)
	for _, o := range objects {
		c.current[o.Object.GetName()] = o
	}
	if c.scope.granted() != nil && c.Kind == journal.Namespaces {
		pods, _, err := c.journal.Named(revision)
		if err != nil {
			return err
		}
		c.pods = make(map[string]int)
		for _, p := range pods {
			c.count(p, 1)
		}
	}
	if c.Since != nil {
		return nil
	}
	for _, o := range objects {
		if c.shown(o) {
			c.first = append(c.first, ObjectEvent{Op: config.ADD, Object: c.scope.object(o), Revision: o.Revision})
		}
	}
	slices.SortFunc(c.first, byRevision) // a client can resume after each
	c.first = append(c.first, ObjectEvent{Op: config.BOOKMARK, Revision: revision, InitialSyncComplete: true})
	return nil
}

func byRevision(a, b ObjectEvent) int { return cmp.Compare(a.Revision, b.Revision) }

// count counts a pod that the subscriber sees.
func (c *ObjectsCursor) count(p *journal.Pod, n int) {
	if (&lens{grant: c.scope.granted()}).see(p) != nil {
		c.pods[p.Object.Namespace] += n
	}
}

// shown reports whether the subscriber has the object at this position.
func (c *ObjectsCursor) shown(o *journal.Object) bool {
	return o != nil && (c.pods == nil || c.pods[o.Object.GetName()] > 0) && (c.Match == nil || c.Match(o))
}

// Next waits for events and returns them. The error is the context's cause, or a
// CompactedError.
func (c *ObjectsCursor) Next(ctx context.Context) ([]ObjectEvent, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	for {
		if ctx.Err() != nil && c.first == nil {
			return nil, context.Cause(ctx)
		}
		events, changed, err := c.read()
		if len(events) > 0 || err != nil {
			return events, err
		}
		if changed == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.scope.replaced():
		case <-changed:
		}
	}
}

// read polls while the access rules stay the same.
func (c *ObjectsCursor) read() (events []ObjectEvent, changed <-chan struct{}, err error) {
	if c.scope == nil {
		return c.poll()
	}
	mu := &c.scope.gate.mu
	mu.RLock()
	defer mu.RUnlock()
	next, err := c.scope.renewedLocked()
	if err != nil {
		return nil, nil, err
	}
	if next != nil {
		if next.grant.Key() != c.scope.grant.Key() {
			return nil, nil, errNewRules
		}
		c.scope = next
	}
	return c.poll()
}

// poll returns the events that are available. If it returns a channel, the channel is closed
// when there are more.
func (c *ObjectsCursor) poll() ([]ObjectEvent, <-chan struct{}, error) {
	if first := c.first; first != nil {
		c.first = nil
		return first, nil, nil
	}
	reading, err := c.journal.After(c.position, c.sets[:0], lookahead)
	if err != nil {
		c.subscriber.Reset(err)
		return nil, nil, err
	}
	c.sets = reading.Sets
	defer clear(c.sets) // a cursor that waits holds nothing that has left the ring
	var events []ObjectEvent
	for _, set := range c.sets {
		for _, e := range c.apply(set) {
			if e.Revision > c.sent {
				events = append(events, e)
			}
		}
		c.position = set.Revision
		if set.Origin != nil && c.subscriber.Live(set) {
			set.Origin.Skipped()
		}
	}
	c.subscriber.MoveTo(c.position)
	if len(events) == 0 && reading.Changed != nil && c.sent < min(reading.Progress, c.position) {
		events = []ObjectEvent{{Op: config.BOOKMARK, Revision: c.position}}
	}
	if n := len(events); n > 0 {
		c.sent = events[n-1].Revision
	}
	return events, reading.Changed, nil
}

// apply applies a set and returns its events.
func (c *ObjectsCursor) apply(set *journal.Set) []ObjectEvent {
	if len(set.Objects) == 0 && (c.pods == nil || len(set.Names) == 0) {
		return nil // usually
	}
	before, changed := make(map[string]*journal.Object), make(map[string]int64)
	touch := func(name string, revision int64) {
		if _, ok := changed[name]; !ok {
			if o := c.current[name]; c.shown(o) {
				before[name] = o
			}
		}
		changed[name] = max(changed[name], revision)
	}
	for i := range set.Objects {
		if change := &set.Objects[i]; change.Kind == c.Kind {
			touch(change.Name(), change.Revision)
		}
	}
	if c.pods != nil {
		for _, change := range set.Names {
			touch(cmp.Or(change.After, change.Before).Object.Namespace, change.Revision)
			c.count(change.Before, -1)
			c.count(change.After, 1)
		}
	}
	for i := range set.Objects {
		if change := &set.Objects[i]; change.Kind == c.Kind {
			if change.After != nil {
				c.current[change.Name()] = change.After
			} else {
				delete(c.current, change.Name())
			}
		}
	}
	var events []ObjectEvent
	for name := range maps.Keys(changed) {
		was, is := before[name], c.current[name]
		if !c.shown(is) {
			is = nil
		}
		switch {
		case was == is:
		case was == nil:
			events = append(events, ObjectEvent{Op: config.ADD, Object: c.scope.object(is), Revision: changed[name]})
		case is == nil:
			events = append(events, ObjectEvent{Op: config.REMOVE, Object: c.scope.object(was), Revision: changed[name]})
		default:
			events = append(events, ObjectEvent{Op: config.UPDATE, Object: c.scope.object(is), Revision: changed[name]})
		}
	}
	slices.SortFunc(events, byRevision)
	return events
}
