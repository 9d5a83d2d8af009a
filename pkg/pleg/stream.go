package pleg

import (
	"context"
	"errors"
	"fmt"
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
		g.do(ctx, func() { g.streamBroke(err) })
		pause := backoff.Step()
		if errors.Is(err, ErrNoEvents) {
			pause = noEventsRetry
		}
		if await.For(ctx, pause) != nil {
			return
		}
	}
}

// streamOpened handles the opening of the stream.
func (g *Generator) streamOpened() {
	g.state.opened, g.state.missed = time.Now(), time.Time{}
	g.state.StreamError = "the event stream has announced no change yet"
}

// streamed handles an event of the stream. It drops the event if the receiver of the emitted events is far behind: the
// runtime may block if its events are not received. It also drops events from before the first list, and from before the
// stream was opened, which containerd keeps: the list has what there is. A later list has the changes of all dropped events.
func (g *Generator) streamed(e RuntimeEvent) {
	g.state.Received++
	now := time.Now()
	old := !e.At.IsZero() && e.At.Before(g.state.opened) && now.Before(g.state.opened.Add(streamSettles))
	if old || g.state.listed.IsZero() {
		return
	}
	if g.full() {
		g.metrics.dropped.Inc()
		g.distrust("events of the runtime are dropped, because too many emitted events wait")
		return
	}
	expected := g.expected[e.ContainerID]
	delete(g.expected, e.ContainerID)
	events, enough := g.records.applyEvent(e, now)
	g.emit(events)
	if (len(events) > 0 || enough && !expected.IsZero()) && now.After(g.state.missed.Add(unprovenFor)) {
		g.state.Evented = true
	}
}

// expect remembers changes that a list shows and no event has announced yet. It counts only those of which every runtime
// sends an event: a container runs, or a running one ends. The list was requested at the given time. A runtime can send events
// a period after the opening at the latest: it answers nothing when the stream is open.
func (g *Generator) expect(changes []change, listed time.Time) {
	if opened := g.state.opened; opened.IsZero() || listed.Before(opened.Add(g.opts.RelistPeriod)) {
		return
	}
	for _, c := range changes {
		if !c.container.Sandbox && (c.to == StateRunning || c.from == StateRunning && c.to == StateExited) {
			g.expected[c.container.ID] = time.Now()
		}
	}
}

// doubt stops to trust the stream if it has not announced a change that an earlier list showed.
func (g *Generator) doubt(now time.Time) {
	for id, at := range g.expected {
		if now.Sub(at) < announceTime {
			continue
		}
		delete(g.expected, id)
		g.state.missed = now
		g.metrics.missed.Inc()
		g.distrust(fmt.Sprintf("a list showed a change of container %s that no event announced", id))
	}
}

// distrust stops to trust the stream.
func (g *Generator) distrust(why string) {
	if g.state.Evented {
		g.state.Fallbacks++
		g.metrics.fallbacks.Inc()
	}
	g.state.Evented, g.state.StreamError = false, why
}

// reportTrust logs whether the stream is trusted, after a list, if that changed.
func (g *Generator) reportTrust() {
	evented, why := g.state.Evented, g.state.StreamError
	if evented == g.state.said {
		return
	}
	g.state.said = evented
	g.note(func(logger klog.Logger) {
		if evented {
			logger.Info("The events of the runtime announce its changes")
		} else {
			logger.Info("Only lists show the changes of the runtime", "reason", why)
		}
	})
}

// streamBroke handles the end of the stream.
func (g *Generator) streamBroke(err error) {
	said := g.state.saidNoEvents
	g.state.opened, g.state.saidNoEvents = time.Time{}, said || errors.Is(err, ErrNoEvents)
	clear(g.expected)
	g.distrust(err.Error())
	g.note(func(logger klog.Logger) {
		if errors.Is(err, ErrNoEvents) && !said {
			logger.Info("Only lists show the changes of the runtime", "reason", err)
		} else {
			logger.V(4).Info("Failed to receive events from the runtime", "err", err)
		}
	})
}
