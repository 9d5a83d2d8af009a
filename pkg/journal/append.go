package journal

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

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
	set.Origin = j.originOf(&u, now)
	j.commit(set)
	in.pending = nil
	if in.bookmark != before && (in.bookmark.Ready || before.Restored(u.Source) || in.bookmark.Known() && !before.Known()) {
		j.announce(now)
	}
}

// announce appends a set with the bookmark, which stores changes of sources. So the bookmark has a
// revision of its own, and a subscriber that has the updates before it can resume without missing it.
func (j *Journal) announce(now time.Time, sources ...Source) {
	set := j.intake.advance(now)
	set.Readied, set.Sources = true, sources
	j.commit(set)
}

// appendEvent appends an update that is no config operation, if it is recorded now.
func (j *Journal) appendEvent(u config.PodUpdate, event *v1alpha1.Event, now time.Time) {
	pods := prepare(u)
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	if j.wanted(u.Op, j.intake.head, now) {
		j.commit(j.number([]config.PodUpdate{u}, [][]*Pod{pods}, event, now))
	}
}

// prepare makes the versions of the update's pods. It computes the size of each pod,
// which takes time, so it runs before the lock.
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

// show applies a set to the state that subscribers read, adds it to the ring and wakes
// the subscribers that wait. With a new instance, all subscribers are behind and start
// again.
func (j *Journal) show(set *Set, instance string) {
	set.Instance = instance
	for _, u := range set.Updates {
		u.Instance = instance
	}
	subscribers := 0
	defer func() { set.Origin.shown(set.Revision, subscribers) }()
	j.mu.Lock()
	defer j.mu.Unlock()
	subscribers = len(j.subscribers)
	j.applyLocked(set)
	if set.count() > 0 {
		j.pushLocked(set)
	}
	if instance != j.instance {
		j.instance = instance
		j.clearLocked()
		j.compacted, j.renewed = j.head, j.head
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// applyLocked applies a set to the state.
func (j *Journal) applyLocked(set *Set) {
	for _, u := range set.Updates {
		if u.Op == config.HOUSEKEEPING {
			j.orphans = u.Pods
		}
		if !u.Op.IsConfig() {
			continue
		}
		for _, p := range u.Pods {
			if u.Op == config.REMOVE {
				delete(j.state, p.key())
			} else {
				j.state[p.key()] = p
			}
		}
	}
	applyChanges(j.names, set.Names, (*Pod).name)
	applyChanges(j.uids, set.UIDs, (*Pod).uid)
	j.objects.apply(set.Objects)
	j.head, j.bookmark = set.Revision, set.Bookmark
}

func applyChanges[K comparable](pods map[K]*Pod, changes []Change, key func(*Pod) K) {
	for _, c := range changes {
		if c.After != nil {
			pods[key(c.After)] = c.After
		} else {
			delete(pods, key(c.Before))
		}
	}
}
