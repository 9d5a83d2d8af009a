package journal

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

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

// SetOwners sets the function that returns the owners of a pod, from its controller to the top. It is called while the intake is
// locked, so it must not call the journal. All pods come in an OWNERS: at a start, nobody knows what subscribers that resume have got.
func (j *Journal) SetOwners(of func(*Pod) []v1alpha1.Owner) {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	j.intake.owners = of
	j.recordOwners(true)
}

// RecordOwners appends an OWNERS for each source that has pods whose owners have changed.
func (j *Journal) RecordOwners() {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	j.recordOwners(false)
}

func (j *Journal) recordOwners(all bool) {
	in := &j.intake
	bySource := make(map[string][]*Pod)
	for _, pods := range in.uids.pods {
		for _, p := range pods {
			if owners := in.owners(p); !slices.EqualFunc(owners, p.Owners, v1alpha1.Owner.Equal) {
				bySource[p.Source] = append(bySource[p.Source], p.owned(owners))
			} else if all {
				bySource[p.Source] = append(bySource[p.Source], p)
			}
		}
	}
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		versions := bySource[source]
		slices.SortFunc(versions, func(a, b *Pod) int { return cmp.Compare(a.Object.UID, b.Object.UID) })
		u := config.PodUpdate{Op: config.OWNERS, Source: source}
		for _, p := range versions {
			u.Pods = append(u.Pods, p.Merged)
		}
		j.commit(j.number([]config.PodUpdate{u}, [][]*Pod{versions}, nil, time.Now()))
	}
}

// RecordEvent appends a PLEG with the event, if a subscriber requests the operation or requested it
// within the last minutes.
func (j *Journal) RecordEvent(pod *v1.Pod, e *v1alpha1.Event) {
	j.appendEvent(config.PodUpdate{Op: config.PLEG, Source: j.intake.sourceOf(pod), Pods: []*v1.Pod{pod}}, e, time.Now())
}

// HandlePodOrphans appends a HOUSEKEEPING. The newest one is part of the current state.
func (j *Journal) HandlePodOrphans(_ context.Context, pods []*v1.Pod) {
	j.appendEvent(config.PodUpdate{Op: config.HOUSEKEEPING, Pods: pods}, nil, time.Now())
}

// announce appends a set with the bookmark and the changes of sources to store. So the bookmark has
// its own revision. A subscriber that resumes before it does not miss it.
func (j *Journal) announce(now time.Time, sources ...Source) {
	set := j.intake.advance(now)
	set.Readied, set.Sources = true, sources
	j.commit(set)
}

// appendEvent appends an update whose operation is not one of the config, if it is recorded now.
func (j *Journal) appendEvent(u config.PodUpdate, event *v1alpha1.Event, now time.Time) {
	pods := prepare(u)
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	if j.wanted(u.Op, j.intake.head, now) {
		j.commit(j.number([]config.PodUpdate{u}, [][]*Pod{pods}, event, now))
	}
}
