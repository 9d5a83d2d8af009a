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
		err := g.opts.Runtime.Events(ctx,
			func() { g.post(ctx, func(context.Context) { g.streamOpened() }) },
			func(e RuntimeEvent) {
				backoff = streamRetries
				g.post(ctx, func(ctx context.Context) { g.streamed(ctx, e) })
			})
		if ctx.Err() != nil {
			return
		}
		var settled bool
		g.post(ctx, func(ctx context.Context) { settled = g.streamBroke(ctx, err) })
		if settled {
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

// streamOpened handles the opening of the stream. It is not known yet whether and since
// when the runtime serves the stream. So the generator relies on events only after a list
// that was requested one period later, or after the first event. That list has every
// earlier change.
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

// streamBroke returns to relisting. It reports whether the generator relied on the stream.
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
	g.mu.Unlock()
	switch {
	case evented:
		logger.Info("The event stream of the runtime broke, relisting until it is restored", "err", err, "period", g.opts.RelistPeriod)
		g.metrics.fallbacks.Inc()
		g.relistAfter(0)
	case errors.Is(err, ErrNoEvents) && !said:
		logger.Info("The runtime has no event stream, relisting", "period", g.opts.RelistPeriod)
	default:
		logger.V(4).Info("Failed to receive events from the runtime", "err", err)
	}
	return evented
}
