package config

import (
	"context"
	"sync"
)

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
