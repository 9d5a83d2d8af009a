// Package await has the waits that many goroutines have:
//
//	changed := make(chan struct{}, 1)
//	await.Signal(changed) // never blocks
//	err := await.For(ctx, time.Second)
package await

import (
	"context"
	"slices"
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

// Keys has who waits for which key. What guards it is up to its owner.
type Keys[K comparable] map[K][]chan struct{}

// Add returns a channel that is closed at the first Wake for one of the keys. Remove forgets it.
func (k Keys[K]) Add(keys ...K) chan struct{} {
	woken := make(chan struct{})
	for _, key := range keys {
		k[key] = append(k[key], woken)
	}
	return woken
}

// Wake closes the channels of a key.
func (k Keys[K]) Wake(key K) {
	for _, woken := range k[key] {
		select {
		case <-woken: // closed for another key
		default:
			close(woken)
		}
	}
	delete(k, key)
}

// Remove forgets a channel of Add with its keys.
func (k Keys[K]) Remove(woken chan struct{}, keys ...K) {
	for _, key := range keys {
		k[key] = slices.DeleteFunc(k[key], func(other chan struct{}) bool { return other == woken })
		if len(k[key]) == 0 {
			delete(k, key)
		}
	}
}
