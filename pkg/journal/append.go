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

// The journal is a handler of the sync loop, which calls the methods below with its updates.

// HandlePodAdditions appends the update.
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

// Append appends an update. The updates of one set become visible together, with the
// first update that does not have More. Append never waits for a subscriber.
//
// A SYNC is recorded only if a subscriber requests the operation or requested it within
// the last minutes. Otherwise SYNCs would push updates out of the ring that are still
// needed.
func (j *Journal) Append(u config.PodUpdate) {
	now := time.Now()
	if !u.Op.IsConfig() {
		j.appendEvent(u, nil, now)
		return
	}
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pending = append(in.pending, u)
	if u.More {
		return
	}
	pods := make([][]*Pod, len(in.pending))
	for i, u := range in.pending {
		pods[i] = prepare(u)
	}
	before := in.bookmark
	set := j.number(in.pending, pods, nil, now)
	set.Origin = j.originOf(&u)
	j.commit(set)
	in.pending = reuse(in.pending)
	if in.bookmark != before && (in.bookmark.Ready || before.Restored(u.Source) || in.bookmark.Known() && !before.Known()) {
		j.announce(now)
	}
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

// prepare makes the versions of the update's pods. It computes the size of each pod, which takes
// time. So an event is prepared before the intake is locked.
func prepare(u config.PodUpdate) []*Pod {
	if u.Op == config.REMOVE {
		return nil // it makes no versions
	}
	pods := make([]*Pod, len(u.Pods))
	for i, object := range u.Pods {
		var status *v1.PodStatus
		if u.Statuses != nil {
			status = u.Statuses[i]
		}
		pods[i] = newPod(u.Source, object, status)
		if u.Files != nil {
			pods[i].File = u.Files[i]
		}
	}
	return pods
}

// number gives revisions to new updates, and counts them.
func (j *Journal) number(updates []config.PodUpdate, prepared [][]*Pod, event *v1alpha1.Event, now time.Time) *Set {
	set := j.intake.number(updates, prepared, event, now)
	for _, u := range set.Updates {
		j.metrics.updates.WithLabelValues(u.Op.String(), u.Source).Inc()
	}
	return set
}

// commit makes a set visible, once it is stored. It is the only way into the ring. The
// intake is locked, so sets are committed in the order of their revisions.
func (j *Journal) commit(set *Set) {
	if j.store == nil {
		j.show(set, j.Instance())
		return
	}
	j.store.Append(set, func(c Commit) { j.show(set, c.Instance) })
}

// show replaces the table that subscribers read by the one after a set, adds the set to the ring and wakes
// the subscribers that wait. With a new instance, all subscribers are behind and start
// again.
func (j *Journal) show(set *Set, instance string) {
	set.Instance = instance
	for _, u := range set.Updates {
		u.Instance = instance
	}
	defer set.Origin.shown()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.table = set.After
	if set.count() > 0 {
		j.pushLocked(set)
	}
	if instance != j.instance {
		j.instance = instance
		j.clearLocked()
		j.compacted, j.renewed = set.Revision, set.Revision
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// memoized is the number of newest sets that keep the frames of views.
const memoized = 64

func (j *Journal) pushLocked(set *Set) {
	j.ring.push(set)
	j.updates += set.count()
	j.bytes += set.size
	j.shrinkLocked()
	if n := j.ring.len(); n > memoized {
		j.ring.at(n - 1 - memoized).forget()
	}
}

// shrinkLocked removes the oldest sets beyond the limits. The newest set stays, and if it has only
// the bookmark, the set before it too.
func (j *Journal) shrinkLocked() {
	keep := 1
	if n := j.ring.len(); n > 0 && j.ring.at(n-1).Readied {
		keep = 2
	}
	for j.ring.len() > keep && (j.updates > j.maxUpdates || j.bytes > j.maxBytes) {
		j.popLocked()
	}
}

func (j *Journal) popLocked() {
	set := j.ring.pop()
	j.updates -= set.count()
	j.bytes -= set.size
	j.compacted = set.Revision
	j.gaps = slices.DeleteFunc(j.gaps, func(g gap) bool { return g.before <= j.compacted })
}

// clearLocked empties the ring.
func (j *Journal) clearLocked() {
	for j.ring.len() > 0 {
		j.popLocked()
	}
}
