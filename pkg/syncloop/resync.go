package syncloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

const (
	// firstResync and lastResync are the minimum and maximum wait after a resync of a pod.
	// The wait doubles with each resync. It starts again at firstResync if the pod is not
	// requested for one more wait after the wait has ended.
	firstResync = time.Second
	lastResync  = time.Minute
)

// ErrNoPod is returned if there is no pod with the name.
var ErrNoPod = errors.New("no such pod")

// TooSoonError is returned if a pod is requested too often.
type TooSoonError struct {
	// Wait is the time until the next request can succeed.
	Wait time.Duration
	what string
}

// Error names the pod and the time to wait.
func (e *TooSoonError) Error() string {
	return fmt.Sprintf("%s: too many requests for this pod; try again in %v", e.what, e.Wait.Round(time.Millisecond))
}

type resync struct {
	namespace, name string
	result          chan<- error
}

// backoff has the time from which a pod may be requested again.
type backoff struct {
	next time.Time
	wait time.Duration
}

// over reports whether the backoff has expired, so that the next wait is firstResync.
func (b *backoff) over(now time.Time) bool { return now.Sub(b.next) > b.wait }

// Resync sends a SYNC for the pods with that name at once, as if they were due. It
// returns ErrNoPod, a TooSoonError, or the cause of the context.
func (l *Loop) Resync(ctx context.Context, namespace, name string) error {
	result := make(chan error, 1)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case l.resyncs <- resync{namespace, name, result}:
	}
	select { // the loop may have ended
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-result:
		return err
	}
}

func (l *Loop) resync(ctx context.Context, r resync) error {
	what := fmt.Sprintf("resyncing pod %s/%s", r.namespace, r.name)
	pods := l.pods.named(r.namespace, r.name)
	if len(pods) == 0 {
		return fmt.Errorf("%s: %w", what, ErrNoPod)
	}
	now := time.Now()
	for _, pod := range pods {
		if b := l.backoff[pod.UID]; b != nil && now.Before(b.next) {
			return &TooSoonError{Wait: b.next.Sub(now), what: what}
		}
	}
	for _, pod := range pods {
		b := l.backoff[pod.UID]
		if b == nil || b.over(now) {
			b = &backoff{wait: firstResync}
			l.backoff[pod.UID] = b
		} else {
			b.wait = min(2*b.wait, lastResync)
		}
		b.next = now.Add(b.wait)
	}
	klog.FromContext(ctx).V(2).Info("SyncLoop (RESYNC) pods", "pods", klog.KObjSlice(pods))
	l.queue.put(pods, now)
	l.handler.HandlePodSyncs(ctx, pods)
	return nil
}
