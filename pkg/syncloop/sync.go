package syncloop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/await"
)

// syncJitter is the maximum random delay of a sync, as a fraction of the period. It spreads
// the syncs of pods that were added together.
const syncJitter = 0.5

// syncQueue has the time at which each pod is due for a sync. Only the goroutine of the
// loop uses it.
//
// kubelet: pkg/kubelet/util/queue, and getPodsToSync in pkg/kubelet/kubelet.go.
type syncQueue struct {
	period time.Duration
	due    map[types.UID]time.Time
}

func newSyncQueue(period time.Duration) *syncQueue {
	return &syncQueue{period: period, due: make(map[types.UID]time.Time)}
}

func (q *syncQueue) put(pods []*v1.Pod, now time.Time) {
	for _, pod := range pods {
		q.due[pod.UID] = now.Add(q.wait())
	}
}

// wait returns a random time until the next sync of a pod.
func (q *syncQueue) wait() time.Duration {
	return q.period + time.Duration(rand.Float64()*syncJitter*float64(q.period))
}

// setPeriod changes the period. No pod is due later than it is with the new one.
func (q *syncQueue) setPeriod(period time.Duration, now time.Time) {
	if period == q.period {
		return
	}
	q.period = period
	for uid, at := range q.due {
		if next := now.Add(q.wait()); next.Before(at) {
			q.due[uid] = next
		}
	}
}

// take returns the pods that are due, and schedules their next sync.
func (q *syncQueue) take(now time.Time, pods *podManager) (due []*v1.Pod) {
	for uid, at := range q.due {
		if at.After(now) {
			continue
		}
		pod, ok := pods.get(uid)
		if !ok {
			delete(q.due, uid)
			continue
		}
		due = append(due, pod)
	}
	q.put(due, now)
	return due
}

// resyncs are the waits after each resync of a pod. They start again if the pod is not requested for one more wait after a
// wait has ended.
var resyncs = wait.Backoff{Duration: time.Second, Cap: time.Minute}

// over reports whether the next wait is the first one again.
func over(b *await.Backoff, now time.Time) bool { return now.Sub(b.Next) > b.Wait }

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
		return apistatus.New(http.StatusNotFound, what+": no such pod")
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
			b = new(await.Backoff)
			l.backoff[pod.UID] = b
		}
		b.Failed(now, resyncs, nil)
	}
	klog.FromContext(ctx).V(2).Info("SyncLoop (RESYNC) pods", "pods", klog.KObjSlice(pods))
	l.queue.put(pods, now)
	l.handler.HandlePodSyncs(ctx, pods)
	return nil
}
