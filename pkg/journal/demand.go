package journal

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// linger is for how long an operation that only some subscribers ask for is recorded
// after the last of these has left: it may come back and resume.
const linger = 5 * time.Minute

// demand is who asks for an operation that is recorded only on demand.
type demand struct {
	subscribers int
	// until is until when it is recorded though no subscriber asks for it any more.
	until time.Time
	// hole is the revision after which one was last not recorded; 0 for never.
	hole int64
}

// onDemand tells whether the operation is recorded only while a subscriber asks for it.
func onDemand(op config.PodOperation) bool { return op == config.SYNC || op == config.PLEG }

func (j *Journal) demandLocked(op config.PodOperation) *demand {
	d := j.demand[op]
	if d == nil {
		d = new(demand)
		j.demand[op] = d
	}
	return d
}

// wantedLocked tells whether the operation is to be recorded now. Where it is not, it
// notes the hole.
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

// askLocked takes note that a subscriber asks for operations. A revision that it can
// be given is after all holes.
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

// leaveLocked takes note that it does not any more.
func (j *Journal) leaveLocked(ops Operations, now time.Time) {
	for op, wanted := range ops {
		if wanted && onDemand(op) {
			d := j.demandLocked(op)
			d.subscribers--
			d.until = now.Add(linger)
		}
	}
}

// HandlePodLifecycleEvent appends a PLEG, while a subscriber asks for that operation or
// one did in the last minutes.
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

// HandlePodOrphans appends a HOUSEKEEPING. The newest one is a part of what is present.
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
