package lookup

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// minReadPause is the minimum time between two readings. The pause is also readShare times as long as a reading takes: no
	// client can have podconfigd spend more than a tenth of a processor on readings.
	minReadPause = 50 * time.Millisecond
	readShare    = 10
)

// paced is something that takes long to read. It is read only when it is asked for, by one goroutine at a time.
type paced[T any] struct {
	read func() T
	// turn holds the goroutine that reads.
	turn chan struct{}
	last atomic.Pointer[reading[T]]
}

// reading is what was read, and when.
type reading[T any] struct {
	began, ended time.Time
	value        T
}

func newPaced[T any](read func() T) *paced[T] {
	p := &paced[T]{read: read, turn: make(chan struct{}, 1)}
	p.last.Store(new(reading[T]))
	return p
}

// since returns what was read after a time. If it has to be read, but the pause is not over, since waits for the end of the
// pause if it is patient, and otherwise returns what was read before. The error is the cause of the context.
func (p *paced[T]) since(ctx context.Context, at time.Time, patient bool) (T, error) {
	for {
		last := p.last.Load()
		if last.began.After(at) {
			return last.value, nil
		}
		if pause := time.Until(last.ended.Add(max(minReadPause, readShare*last.ended.Sub(last.began)))); pause > 0 {
			if !patient {
				return last.value, nil
			}
			if err := await.For(ctx, pause); err != nil {
				return *new(T), err
			}
			continue
		}
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return *new(T), context.Cause(ctx)
		}
		if p.last.Load() == last { // otherwise, another query had it read in the meantime
			next := &reading[T]{began: time.Now(), value: p.read()}
			next.ended = time.Now()
			p.last.Store(next)
		}
		<-p.turn
	}
}
