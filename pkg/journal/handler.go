package journal

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// HandlePodAdditions appends the update. With the methods below, the journal handles what the sync
// loop does, but RecordEvent has the event as subscribers get it.
func (j *Journal) HandlePodAdditions(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandlePodUpdates appends the update.
func (j *Journal) HandlePodUpdates(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandlePodRemoves appends the update.
func (j *Journal) HandlePodRemoves(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandlePodReconcile appends the update.
func (j *Journal) HandlePodReconcile(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandleSourceChange adds a source or removes one, and tells all subscribers with a bookmark.
func (j *Journal) HandleSourceChange(_ context.Context, update config.PodUpdate) {
	j.changeSource(update)
}

// HandlePodSyncs appends a SYNC for each source that has any of the pods.
func (j *Journal) HandlePodSyncs(_ context.Context, pods []*v1.Pod) {
	bySource := make(map[string][]*v1.Pod)
	var order []string
	for _, pod := range pods {
		source := j.intake.sourceOf(pod)
		if bySource[source] == nil {
			order = append(order, source)
		}
		bySource[source] = append(bySource[source], pod)
	}
	for _, source := range order {
		j.Append(config.PodUpdate{Op: config.SYNC, Source: source, Pods: bySource[source]})
	}
}

// RecordEvent appends a PLEG, if a subscriber requests the operation or requested it within the last
// minutes.
func (j *Journal) RecordEvent(pod *v1.Pod, e *v1alpha1.Event) {
	j.appendEvent(config.PodUpdate{Op: config.PLEG, Source: j.intake.sourceOf(pod), Pods: []*v1.Pod{pod}}, e, time.Now())
}

// HandlePodOrphans appends a HOUSEKEEPING. The newest one is part of the current state.
func (j *Journal) HandlePodOrphans(_ context.Context, pods []*v1.Pod) {
	j.appendEvent(config.PodUpdate{Op: config.HOUSEKEEPING, Pods: pods}, nil, time.Now())
}
