package await

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

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
