package syncloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

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

// getWork returns the pods that are due, and schedules their next sync.
func (q *syncQueue) getWork(now time.Time, pods *podManager) (due []*v1.Pod) {
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

// ErrNoPod is the error of Resync for a name that no pod has.
var ErrNoPod = errors.New("no such pod")

// TooSoonError is the error of Resync for a pod that is requested too often.
type TooSoonError struct {
	// Wait is the time until the next request can succeed.
	Wait time.Duration
	pod  types.NamespacedName
}

// Error says when to try again.
func (e *TooSoonError) Error() string {
	return fmt.Sprintf("resyncing pod %v: too many requests for this pod; try again in %v", e.pod, e.Wait.Round(time.Millisecond))
}

// Resync sends a SYNC for the pods with the name at once, as if they were due. If there is no such pod, the error is
// ErrNoPod. If the pod is requested too often, it is a TooSoonError. Otherwise, an error is the cause of the context.
func (l *Loop) Resync(ctx context.Context, namespace, name string) error {
	return l.calls.Do(ctx, func(ctx context.Context) error {
		l.metrics.iterations.WithLabelValues("resync").Inc()
		return l.resync(ctx, namespace, name)
	})
}

func (l *Loop) resync(ctx context.Context, namespace, name string) error {
	pods := l.pods.named(namespace, name)
	if len(pods) == 0 {
		return fmt.Errorf("resyncing pod %s/%s: %w", namespace, name, ErrNoPod)
	}
	now := time.Now()
	for _, pod := range pods {
		if b := l.backoff[pod.UID]; b != nil && b.Waits(now) {
			return &TooSoonError{Wait: b.Next.Sub(now), pod: types.NamespacedName{Namespace: namespace, Name: name}}
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
