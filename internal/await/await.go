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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
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

// Backoff is the wait after the failures of one thing, for the owner of many. The zero value is no wait.
//
//	e.backoff.Failed(now, waits, err)
//	if e.backoff.Waits(now) {
//		return // try again at e.backoff.Next
//	}
type Backoff struct {
	// Wait is the length of the wait without its jitter, and Next is its end.
	Wait time.Duration
	Next time.Time
}

// Failed starts the next wait: the first has the duration of waits, and each further one twice the last one, up to the cap. If
// the error is of an apiserver that asks for a longer wait, it is that one, up to the cap.
func (b *Backoff) Failed(now time.Time, waits wait.Backoff, err error) {
	if b.Wait > 0 {
		waits.Duration = min(2*b.Wait, waits.Cap)
	}
	b.Wait = waits.Duration
	in := waits.Step() // adds the jitter
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		in = max(in, time.Duration(min(seconds, int(waits.Cap/time.Second)))*time.Second)
	}
	b.Next = now.Add(in)
}

// Waits reports whether the wait lasts.
func (b *Backoff) Waits(now time.Time) bool { return now.Before(b.Next) }
