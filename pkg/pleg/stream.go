package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

// follow receives the events of the runtime until the context is done.
//
// kubelet: pkg/kubelet/pleg/evented.go watchEventsChannel, which gives up after five
// attempts.
func (g *Generator) follow(ctx context.Context) {
	backoff := streamRetries
	for {
		err := g.opts.Runtime.Events(ctx, func() { g.do(ctx, g.streamOpened) }, func(e RuntimeEvent) {
			backoff = streamRetries
			g.do(ctx, func() { g.streamed(e) })
		})
		if ctx.Err() != nil {
			return
		}
		g.do(ctx, func() {
			if g.streamBroke(err) {
				backoff = streamRetries
			}
		})
		pause := backoff.Step()
		if errors.Is(err, ErrNoEvents) {
			pause = unimplementedRetry
		}
		if await.For(ctx, pause) != nil {
			return
		}
	}
}

// streamOpened handles the opening of the stream. The runtime may not serve the stream yet. So the generator relies on
// events only after a list that has all earlier changes: a list that is requested after the first event, or one period
// after the opening.
func (g *Generator) streamOpened() { g.state.opened = time.Now().Add(g.opts.RelistPeriod) }

// streamed handles an event of the stream. It drops the event if the receiver of the emitted events is far behind: the
// runtime may block if its events are not received. A list finds the change later.
func (g *Generator) streamed(e RuntimeEvent) {
	g.state.Received++
	if g.full() {
		g.eventDropped()
		return
	}
	now := time.Now()
	if g.state.opened.After(now) {
		g.state.opened = now
	}
	events, enough := g.records.take(e, now)
	g.emit(events)
	if !enough || e.Type == EventCreated {
		g.relistAfter(g.opts.RelistPeriod)
	}
}

// unevented makes the generator rely on lists. opened is when it may rely on the stream again; zero without a stream. It
// reports whether it relied on the stream.
func (g *Generator) unevented(opened time.Time) bool {
	evented := g.state.Evented
	g.state.Evented, g.state.opened = false, opened
	if evented {
		g.state.Fallbacks++
		g.metrics.fallbacks.Inc()
		g.relistAfter(0)
	}
	return evented
}

// eventDropped makes the generator rely on lists, until a list that is requested from now on has the change of the
// dropped event.
func (g *Generator) eventDropped() {
	g.metrics.dropped.Inc()
	if !g.unevented(time.Now()) {
		g.relistAfter(g.opts.RelistPeriod)
		return
	}
	g.note(func(logger klog.Logger) {
		logger.Info("Dropping events of the runtime, because too many emitted events are waiting; relisting")
	})
}

// streamBroke makes the generator rely on lists. It reports whether it relied on the stream.
func (g *Generator) streamBroke(err error) bool {
	evented, said, period := g.unevented(time.Time{}), g.state.saidUnimplemented, g.opts.RelistPeriod
	unimplemented := errors.Is(err, ErrNoEvents)
	g.state.StreamError = err.Error()
	g.state.saidUnimplemented = said || unimplemented
	g.note(func(logger klog.Logger) {
		switch {
		case evented:
			logger.Info("The event stream of the runtime broke, relisting until it is restored", "err", err, "period", period)
		case unimplemented && !said:
			logger.Info("The runtime has no event stream, relisting", "period", period)
		default:
			logger.V(4).Info("Failed to receive events from the runtime", "err", err)
		}
	})
	return evented
}
