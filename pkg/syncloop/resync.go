package syncloop

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/failure"
	"github.com/podconfigd/podconfigd/internal/retry"
)

// resyncs are the waits after each resync of a pod. They start again if the pod is not requested for one more wait after a
// wait has ended.
var resyncs = wait.Backoff{Duration: time.Second, Cap: time.Minute}

// over reports whether the next wait is the first one again.
func over(b *retry.Backoff, now time.Time) bool { return now.Sub(b.Next) > b.Wait }

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
		if b := l.backoff[pod.UID]; b != nil && b.Waits(now) {
			left := b.Next.Sub(now)
			return apierrors.NewTooManyRequests(
				fmt.Sprintf("%s: too many requests for this pod; try again in %v", what, left.Round(time.Millisecond)),
				int(math.Ceil(left.Seconds())))
		}
	}
	for _, pod := range pods {
		b := l.backoff[pod.UID]
		if b == nil || over(b, now) {
			b = new(retry.Backoff)
			l.backoff[pod.UID] = b
		}
		b.Failed(now, resyncs, nil)
	}
	klog.FromContext(ctx).V(2).Info("SyncLoop (RESYNC) pods", "pods", klog.KObjSlice(pods))
	l.queue.put(pods, now)
	l.handler.HandlePodSyncs(ctx, pods)
	return nil
}
