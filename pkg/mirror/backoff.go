package mirror

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// firstRetry and lastRetry are the shortest and the longest wait after a failure. The wait doubles with each failure.
	// The longest wait of a kubelet is the same, because it syncs a pod every minute.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// retryJitter is the maximum random extension of a wait, as a fraction of it.
	retryJitter = 0.2
)

// backoff is the wait after failures.
type backoff struct {
	wait time.Duration
	next time.Time
}

// failed starts the next wait. If the apiserver asks for a longer wait, failed starts that one.
func (b *backoff) failed(now time.Time, err error) {
	b.wait = min(max(2*b.wait, firstRetry), lastRetry)
	wait := b.wait + time.Duration(rand.Float64()*retryJitter*float64(b.wait))
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		wait = max(wait, time.Duration(min(seconds, int(lastRetry/time.Second)))*time.Second)
	}
	b.next = now.Add(wait)
}

// due reports whether the wait is over.
func (b *backoff) due(now time.Time) bool { return !now.Before(b.next) }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// answered reports whether the error is an answer of the apiserver about one pod. Any other error concerns the next
// request too.
func answered(err error) bool {
	return apierrors.ReasonForError(err) != "" && !apierrors.IsUnauthorized(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsInternalError(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}
