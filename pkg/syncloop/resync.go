package syncloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

const (
	// firstResync and lastResync bound the wait before a pod is offered again for the
	// asking; each is twice the one before, until nobody asks for as long again.
	firstResync = time.Second
	lastResync  = time.Minute
)

// ErrNoPod is returned where there is no pod of the name.
var ErrNoPod = errors.New("there is no such pod")

// TooSoonError is returned where a pod was asked for too often.
type TooSoonError struct {
	// Wait is after what time it can be had.
	Wait time.Duration
	what string
}

// Error says what was asked for, and when it can be had.
func (e *TooSoonError) Error() string {
	return fmt.Sprintf("%s: it was asked for too often; try again in %v", e.what, e.Wait.Round(time.Millisecond))
}

type resync struct {
	namespace, name string
	result          chan<- error
}

// backoff says from when on a pod may be asked for.
type backoff struct {
	next time.Time
	wait time.Duration
}

// over tells that nobody has asked for so long that the waits begin anew.
func (b *backoff) over(now time.Time) bool { return now.Sub(b.next) > b.wait }

// Resync has the pods of that name offered again at once, as if they were due. It
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
	klog.FromContext(ctx).V(2).Info("SyncLoop (resync): pods are offered again", "pods", klog.KObjSlice(pods))
	l.queue.put(pods, now)
	l.handler.HandlePodSyncs(ctx, pods)
	return nil
}
