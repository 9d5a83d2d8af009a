package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
)

// follow follows the runtime's own events until the context is done.
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

// streamOpened: whether the runtime serves the stream, and since when, is not known
// yet. Lists go on until one was asked for a period later, or after the first event:
// that one has whatever happened before.
func (g *Generator) streamOpened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.opened = time.Now().Add(g.opts.RelistPeriod)
}

// streamed takes an event.
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

// streamBroke goes back to relisting, and tells whether events had been relied on.
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
		logger.Info("The runtime's stream of events broke; relisting until it is back", "err", err, "period", g.opts.RelistPeriod)
		g.metrics.fallbacks.Inc()
		g.relistAfter(0)
	case errors.Is(err, ErrNoEvents) && !said:
		logger.Info("The runtime does not tell of events; relisting", "period", g.opts.RelistPeriod)
	default:
		logger.V(4).Info("Following the runtime's events failed", "err", err)
	}
	return evented
}
