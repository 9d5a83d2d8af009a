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

// For waits for the duration. If the context is done before, it returns its cause.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Signal sends to the channel, unless its buffer is full: its receiver will look anyway.
func Signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
