package syncloop

import (
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// syncJitter is by how much of the period at the most a pod's turn is put off, so
// that pods that came together do not stay together.
const syncJitter = 0.5

// syncQueue says which pods are due to be looked at again. It belongs to the
// loop's goroutine.
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
		q.due[pod.UID] = now.Add(q.period + time.Duration(rand.Float64()*syncJitter*float64(q.period)))
	}
}

// take returns the pods whose turn it is, and gives them another.
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
