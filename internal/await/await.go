// Package await has the waits that many goroutines have:
//
//	changed := make(chan struct{}, 1)
//	await.Signal(changed) // never blocks
//	err := await.For(ctx, time.Second)
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

// Signal sends to the channel. If the buffer of the channel is full, the receiver still has a signal to take, and Signal does nothing.
func Signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
