package journal

import (
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
)

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
