package journal

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// linger is for how long operations that only some readers ask for are taken after
// the last of these has left: it may come back and resume.
const linger = 5 * time.Minute

// runtimeState is what the journal has of the runtime.
type runtimeState struct {
	// wantedUntil is until when an operation is taken that no reader asks for any more.
	wantedUntil map[config.PodOperation]time.Time
	// orphans is the newest HOUSEKEEPING; nil before the first.
	orphans *entry
}

// wantedLocked tells whether a reader asks for the operation, or did of late.
func (j *Journal) wantedLocked(op config.PodOperation, now time.Time) bool {
	for c := range j.cursors {
		if c.opts.Ops[op] {
			return true
		}
	}
	return now.Before(j.runtime.wantedUntil[op])
}

// leftLocked takes note that a reader left.
func (j *Journal) leftLocked(c *Cursor, now time.Time) {
	for op, wanted := range c.opts.Ops {
		if !wanted || op.IsConfig() {
			continue
		}
		if j.runtime.wantedUntil == nil {
			j.runtime.wantedUntil = make(map[config.PodOperation]time.Time)
		}
		j.runtime.wantedUntil[op] = now.Add(linger)
	}
}

// HandlePodLifecycleEvent appends a PLEG, while some reader asks for that operation
// or one did of late.
func (j *Journal) HandlePodLifecycleEvent(_ context.Context, pod *v1.Pod, e *pleg.PodLifecycleEvent) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.wantedLocked(config.PLEG, now) {
		return
	}
	j.commitLocked(config.PodUpdate{
		Op: config.PLEG, Source: pod.Annotations[config.ConfigSourceAnnotationKey], Pods: []*v1.Pod{pod},
	}, &v1alpha1.Event{
		Type: string(e.Type), PodUID: string(e.ID),
		ContainerID: e.ContainerID, Container: e.Container, ExitCode: e.ExitCode,
	}, now)
	j.wakeLocked()
}

// HandlePodOrphans appends a HOUSEKEEPING. The newest one is told to every reader
// that begins and asks for that operation.
func (j *Journal) HandlePodOrphans(_ context.Context, pods []*v1.Pod) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if pods == nil {
		pods = []*v1.Pod{}
	}
	j.runtime.orphans = j.commitLocked(config.PodUpdate{Op: config.HOUSEKEEPING, Pods: pods}, nil, time.Now())
	j.wakeLocked()
}

// GetPodsByName returns the present pods of that name by source, of which each may
// have one.
func (j *Journal) GetPodsByName(namespace, name string) (pods []*v1.Pod) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	named := slices.Clone(j.names[types.NamespacedName{Namespace: namespace, Name: name}])
	sortPods(named)
	for _, p := range named {
		pods = append(pods, p.Object)
	}
	return pods
}

// presentFrames returns the orphans as a part of the present state.
func (e *entry) presentFrames(instance string, head int64, selector *Selector) []*Frame {
	return split(Content{Instance: instance, Revision: head, Op: e.op, Pods: selector.filter(e.pods)})
}
