package journal

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// linger is how long an operation that is recorded on demand is still recorded after its
// last subscriber has left. The subscriber may return and resume.
const linger = 5 * time.Minute

// demand is the demand for an operation that is recorded only while a subscriber requests
// it.
type demand struct {
	subscribers int
	// until is the end of the recording, after the last subscriber has left.
	until time.Time
	// hole is the newest revision at which the operation was not recorded; 0 if there is
	// none.
	hole int64
}

// onDemand reports whether the operation is recorded only while a subscriber requests it.
func onDemand(op config.PodOperation) bool { return op == config.SYNC || op == config.PLEG }

func (j *Journal) demandLocked(op config.PodOperation) *demand {
	d := j.demand[op]
	if d == nil {
		d = new(demand)
		j.demand[op] = d
	}
	return d
}

// wantedLocked reports whether the operation is recorded now. If not, it sets the hole.
func (j *Journal) wantedLocked(op config.PodOperation, now time.Time) bool {
	if !onDemand(op) {
		return true
	}
	d := j.demandLocked(op)
	if d.subscribers > 0 || now.Before(d.until) {
		return true
	}
	d.hole = j.head
	return false
}

// askLocked counts a subscriber that requests the operations. All holes are before any
// revision that the subscriber then gets.
func (j *Journal) askLocked(ops Operations) {
	for op, wanted := range ops {
		if !wanted || !onDemand(op) {
			continue
		}
		d := j.demandLocked(op)
		d.subscribers++
		if d.hole == j.head {
			j.head++
		}
	}
}

// leaveLocked counts the subscriber no longer.
func (j *Journal) leaveLocked(ops Operations, now time.Time) {
	for op, wanted := range ops {
		if wanted && onDemand(op) {
			d := j.demandLocked(op)
			d.subscribers--
			d.until = now.Add(linger)
		}
	}
}

// HandlePodLifecycleEvent appends a PLEG, if a subscriber requests the operation or
// requested it within the last minutes.
func (j *Journal) HandlePodLifecycleEvent(_ context.Context, pod *v1.Pod, e *pleg.PodLifecycleEvent) {
	now := time.Now()
	u := config.PodUpdate{Op: config.PLEG, Source: pod.Annotations[config.ConfigSourceAnnotationKey], Pods: []*v1.Pod{pod}}
	prepared := [][]*Pod{prepare(u)}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.wantedLocked(config.PLEG, now) {
		return
	}
	j.commitLocked([]config.PodUpdate{u}, prepared, &v1alpha1.Event{
		Type: string(e.Type), PodUID: string(e.ID),
		ContainerID: e.ContainerID, Container: e.Container, ExitCode: e.ExitCode,
	}, now)
}

// HandlePodOrphans appends a HOUSEKEEPING. The newest one is part of the current state.
func (j *Journal) HandlePodOrphans(_ context.Context, pods []*v1.Pod) {
	if pods == nil {
		pods = []*v1.Pod{}
	}
	u := config.PodUpdate{Op: config.HOUSEKEEPING, Pods: pods}
	prepared := prepare(u)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.orphans = prepared
	j.commitLocked([]config.PodUpdate{u}, [][]*Pod{prepared}, nil, time.Now())
}
