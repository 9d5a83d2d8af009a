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
	channels  map[string]chan SourceSet
	ctx       context.Context //nolint:containedctx // the life of run, for channels made while it runs
	listeners sync.WaitGroup
}

func newMux() *mux {
	return &mux{
		merged:   make(chan sourcedSet),
		channels: make(map[string]chan SourceSet),
	}
}

// channel returns the channel of a source. Each call returns the same channel.
func (m *mux) channel(source string) chan SourceSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ch, ok := m.channels[source]; ok {
		return ch
	}
	ch := make(chan SourceSet)
	m.channels[source] = ch
	if m.ctx != nil && m.ctx.Err() == nil {
		m.listenLocked(m.ctx, source, ch)
	}
	return ch
}

// run starts a listener for each channel, also for channels that are added later. It
// returns when the context is done and all listeners have ended.
func (m *mux) run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	for source, ch := range m.channels {
		m.listenLocked(ctx, source, ch)
	}
	m.mu.Unlock()

	<-ctx.Done()
	// A channel call that saw a live context has added its listener by now.
	m.mu.Lock()
	//nolint:staticcheck // SA2001: the empty section is the barrier named above
	m.mu.Unlock()
	m.listeners.Wait()
}

func (m *mux) listenLocked(ctx context.Context, source string, ch <-chan SourceSet) {
	m.listeners.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case set := <-ch:
				select {
				case <-ctx.Done():
					return
				case m.merged <- sourcedSet{source, set}:
				}
			}
		}
	})
}
