package config

import (
	"context"
	"sync"
)

// sourcedSet is a set and the name of the source that it came from.
type sourcedSet struct {
	source string
	set    SourceSet
}

// mux takes the sets of all sources in, each on a channel of its own, and hands
// them to one reader.
//
// kubelet: pkg/kubelet/config/mux.go.
type mux struct {
	merged chan sourcedSet

	// mu guards what follows; nothing is sent or waited for while it is held.
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

// channel returns the channel of a source, the same one at each call.
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

// run starts a listener for each channel, present and to come, and returns when
// the context is done and all of them have ended.
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
