package soak

import (
	"context"
	"sync"
)

// progress is how far the test is. Subscribers that pause wait for a later step.
type progress struct {
	mu      sync.Mutex
	step    int
	final   bool
	changed chan struct{}
}

func newProgress() *progress { return &progress{changed: make(chan struct{})} }

// advance begins the next step. With final, nothing is paused or cut any more.
func (p *progress) advance(final bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step++
	p.final = p.final || final
	close(p.changed)
	p.changed = make(chan struct{})
}

// pause waits for a number of steps.
func (p *progress) pause(ctx context.Context, steps int) {
	for until := -1; ctx.Err() == nil; {
		p.mu.Lock()
		step, final, changed := p.step, p.final, p.changed
		p.mu.Unlock()
		if until < 0 {
			until = step + steps
		}
		if final || step >= until {
			return
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// atRest reports whether nothing is paused or cut any more.
func (p *progress) atRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.final
}
