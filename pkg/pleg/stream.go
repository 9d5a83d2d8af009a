package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
)

// follow receives the events of the runtime until the context is done.
//
// kubelet: pkg/kubelet/pleg/evented.go watchEventsChannel, which gives up after five
// attempts.
func (g *Generator) follow(ctx context.Context) {
	backoff := streamRetries
	for {
		err := g.opts.Runtime.Events(ctx, g.inbox.open, func(e RuntimeEvent) {
			backoff = streamRetries
			g.inbox.add(e)
		})
		if ctx.Err() != nil {
			return
		}
		var settled bool
		if g.post(ctx, func(ctx context.Context) {
			g.receive(ctx)
			settled = g.streamBroke(ctx, err)
		}) && settled {
			backoff = streamRetries
		}
		pause := backoff.Step()
		if errors.Is(err, ErrNoEvents) {
			pause = unimplementedRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// receive handles what came from the stream. If the receiver of the emitted events is far behind, it drops the events of the
// runtime. A list finds the changes later.
func (g *Generator) receive(ctx context.Context) {
	r := g.inbox.take()
	if g.full() {
		r.drop()
	}
	if r.opened {
		g.streamOpened()
	}
	if r.dropped > 0 {
		g.eventsDropped(ctx, r.dropped)
	}
	for _, e := range r.events {
		g.streamed(ctx, e)
	}
}

// streamOpened handles the opening of the stream. The runtime may not serve the stream yet. So the generator relies on
// events only after a list that has all earlier changes: a list that is requested after the first event, or one period
// after the opening.
func (g *Generator) streamOpened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.opened = time.Now().Add(g.opts.RelistPeriod)
}

// streamed handles an event of the stream.
func (g *Generator) streamed(ctx context.Context, e RuntimeEvent) {
	now := time.Now()
	g.mu.Lock()
	if g.state.opened.After(now) {
		g.state.opened = now
	}
	g.state.received++
	events, enough := g.records.take(e, now)
	g.mu.Unlock()
	g.emit(ctx, events)
	if !enough || e.Type == EventCreated {
		g.relistAfter(g.opts.RelistPeriod)
	}
}

// eventsDropped makes the generator rely on lists, until a list that is requested from now on has the changes of the
// dropped events.
func (g *Generator) eventsDropped(ctx context.Context, n int64) {
	g.metrics.dropped.Add(float64(n))
	g.mu.Lock()
	s := &g.state
	evented := s.evented
	s.evented, s.opened = false, time.Now()
	s.received += n
	if evented {
		s.fallbacks++
	}
	g.mu.Unlock()
	if !evented {
		g.relistAfter(g.opts.RelistPeriod)
		return
	}
	klog.FromContext(ctx).Info("Dropped events of the runtime, because too many were waiting; relisting", "events", n)
	g.metrics.fallbacks.Inc()
	g.relistAfter(0)
}

// streamBroke makes the generator rely on lists. It reports whether it relied on the stream.
func (g *Generator) streamBroke(ctx context.Context, err error) bool {
	logger := klog.FromContext(ctx)
	g.mu.Lock()
	s := &g.state
	evented, said := s.evented, s.saidUnimplemented
	s.evented, s.opened = false, time.Time{}
	s.streamError = err.Error()
	if evented {
		s.fallbacks++
	}
	if errors.Is(err, ErrNoEvents) {
		s.saidUnimplemented = true
	}
	period := g.opts.RelistPeriod
	g.mu.Unlock()
	switch {
	case evented:
		logger.Info("The event stream of the runtime broke, relisting until it is restored", "err", err, "period", period)
		g.metrics.fallbacks.Inc()
		g.relistAfter(0)
	case errors.Is(err, ErrNoEvents) && !said:
		logger.Info("The runtime has no event stream, relisting", "period", period)
	default:
		logger.V(4).Info("Failed to receive events from the runtime", "err", err)
	}
	return evented
}
