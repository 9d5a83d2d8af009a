package syncloop

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/failure"
)

const (
	// firstResync and lastResync are the minimum and maximum wait after a resync of a pod.
	// The wait doubles with each resync. It starts again at firstResync if the pod is not
	// requested for one more wait after the wait has ended.
	firstResync = time.Second
	lastResync  = time.Minute
)

// backoff has the time from which a pod may be requested again.
type backoff struct {
	next time.Time
	wait time.Duration
}

// over reports whether the backoff has expired, so that the next wait is firstResync.
func (b *backoff) over(now time.Time) bool { return now.Sub(b.next) > b.wait }

// Resync sends a SYNC for the pods with the name at once, as if they were due. If there is no such pod,
// apierrors.IsNotFound reports the error. If the pod is requested too often, apierrors.IsTooManyRequests reports it, and
// apierrors.SuggestsClientDelay returns the seconds until the next request can succeed. Otherwise, an error is the
// cause of the context.
func (l *Loop) Resync(ctx context.Context, namespace, name string) error {
	return l.calls.Do(ctx, func(ctx context.Context) error {
		l.metrics.iterations.WithLabelValues("resync").Inc()
		return l.resync(ctx, namespace, name)
	})
}

func (l *Loop) resync(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("resyncing pod %s/%s", namespace, name)
	pods := l.pods.named(namespace, name)
	if len(pods) == 0 {
		return failure.New(http.StatusNotFound, what+": no such pod")
	}
	now := time.Now()
	for _, pod := range pods {
		if b := l.backoff[pod.UID]; b != nil && now.Before(b.next) {
			wait := b.next.Sub(now)
			return apierrors.NewTooManyRequests(
				fmt.Sprintf("%s: too many requests for this pod; try again in %v", what, wait.Round(time.Millisecond)),
				int(math.Ceil(wait.Seconds())))
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
