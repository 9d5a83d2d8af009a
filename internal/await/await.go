// Package await has the waits that many goroutines have:
//
//	changed := make(chan struct{}, 1)
//	await.Signal(changed) // never blocks
//	err := await.For(ctx, time.Second)
//	ctx, cancel := await.Timeout(ctx, time.Second)
package await

import (
	"context"
	"time"
)

// For waits for the duration. If the context is done first, For returns the cause of the context.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

const (
	// parts is how many parts a wait of Running has, and maxParts how many it has with those that do not count.
	parts    = 4
	maxParts = 10 * parts
)

// Running waits until this process has run for about the duration. A part of the wait that took more than
// twice its time does not count: while the machine stands still, nothing happens that a limit waits for. If
// the context is done first, Running returns the cause of the context.
func Running(ctx context.Context, d time.Duration) error {
	part := d / parts
	for left, most := parts, maxParts; left > 0 && most > 0; most-- {
		began := time.Now()
		if err := For(ctx, part); err != nil {
			return err
		}
		if time.Since(began) <= 2*part {
			left--
		}
	}
	return nil
}

// Timeout returns a context that is done when Running returns. The cause is context.DeadlineExceeded then.
// The caller calls cancel when it needs the context no longer.
func Timeout(ctx context.Context, d time.Duration) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		if Running(ctx, d) == nil {
			end(context.DeadlineExceeded)
		}
	}()
	return ctx, func() { end(nil) }
}

// Signal sends to the channel. If the buffer of the channel is full, the receiver still has a signal to take, and Signal does nothing.
func Signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
