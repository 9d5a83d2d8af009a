package syncloop

import (
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
