package journal

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// The Kubernetes API has one pod of a name. Where several sources have one, it shows
// the first of them by source and UID, but a mirror pod only where there is nothing
// else: it is the image of a static pod.

// nameChange is what an update does to what a name stands for.
type nameChange struct {
	// before and after are what the name stands for; nil where for nothing.
	before, after *Pod
}

// names has the pods of each name, the one that it stands for first.
type names map[types.NamespacedName][]*Pod

func compareOfName(a, b *Pod) int {
	if am, bm := isMirrorPod(a.Object), isMirrorPod(b.Object); am != bm {
		if bm {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Object.UID, b.Object.UID))
}

func (n names) of(name types.NamespacedName) *Pod {
	if pods := n[name]; len(pods) > 0 {
		return pods[0]
	}
	return nil
}

// state returns what the names stand for.
func (n names) state() state {
	s := make(state, len(n))
	for name := range n {
		p := n.of(name)
		s[p.key()] = p
	}
	return s
}

// replace puts after in before's place, either of which may be nil, and appends what
// that does to the names, at a revision.
func (n names) replace(changes []nameChange, before, after *Pod, revision int64) []nameChange {
	if before != nil && after != nil && before.name() != after.name() {
		changes = n.replace(changes, before, nil, revision)
		before = nil
	}
	one := cmp.Or(after, before)
	if one == nil {
		return changes
	}
	name := one.name()
	change := nameChange{before: n.of(name)}
	pods := n[name]
	if before != nil {
		pods = slices.DeleteFunc(pods, func(p *Pod) bool { return p.key() == before.key() })
	}
	if after != nil {
		at, _ := slices.BinarySearchFunc(pods, after, compareOfName)
		pods = slices.Insert(pods, at, after)
	}
	if len(pods) == 0 {
		delete(n, name)
	} else {
		n[name] = pods
	}
	if change.after = n.of(name); change.before == change.after {
		return changes
	}
	if change.after != nil && change.after.Revision != revision {
		// It was there, but not what the name stands for: to those who follow names, its
		// revision is this one.
		shown := *change.after
		shown.Revision = revision
		change.after, pods[0] = &shown, &shown
	}
	return append(changes, change)
}

// fold makes one change of those of the same name: who follows names is told what an
// update does in all.
func fold(changes []nameChange) []nameChange {
	if len(changes) < 2 {
		return changes
	}
	at := make(map[types.NamespacedName]int, len(changes))
	folded := changes[:0]
	for _, c := range changes {
		name := cmp.Or(c.after, c.before).name()
		if i, there := at[name]; there {
			folded[i].after = c.after
			continue
		}
		at[name] = len(folded)
		folded = append(folded, c)
	}
	return slices.DeleteFunc(folded, func(c nameChange) bool { return c.before == c.after })
}

// Named returns the pods that names stand for, by namespace and name, as they were at
// a revision; for 0 the present ones. It returns the revision too, and a
// CompactedError where it is gone.
func (j *Journal) Named(at int64) ([]*Pod, int64, error) {
	pods, revision, err := j.named(at)
	if err != nil {
		return nil, 0, err
	}
	sorted := slices.Collect(maps.Values(pods))
	slices.SortFunc(sorted, func(a, b *Pod) int { return config.ComparePods(a.Object, b.Object) })
	return sorted, revision, nil
}

func (j *Journal) named(at int64) (map[types.NamespacedName]*Pod, int64, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	revision := cmp.Or(at, j.head)
	if why := j.goneLocked(revision); why != "" {
		return nil, 0, &CompactedError{why}
	}
	pods := make(map[types.NamespacedName]*Pod, len(j.names))
	for name := range j.names {
		pods[name] = j.names.of(name)
	}
	for i := j.ring.len() - 1; i >= 0 && j.ring.at(i).revision > revision; i-- {
		for _, change := range slices.Backward(j.ring.at(i).named) {
			if change.before != nil {
				pods[change.before.name()] = change.before
			} else {
				delete(pods, change.after.name())
			}
		}
	}
	return pods, revision, nil
}

// Get returns the pod that the name stands for, or nil.
func (j *Journal) Get(name types.NamespacedName) *Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.names.of(name)
}

// renderNamed returns what the entry does to the names that stand for selected pods.
// The frames are of one revision, so all but the last have Continues.
func (e *entry) renderNamed(instance string, s *Selector) (frames []*Frame) {
	var removes, adds, updates []*Pod
	for _, change := range e.named {
		was := change.before != nil && s.Matches(change.before)
		is := change.after != nil && s.Matches(change.after)
		switch {
		case was && is:
			updates = append(updates, change.after)
		case is:
			adds = append(adds, change.after)
		case was:
			removes = append(removes, change.before)
		}
	}
	return e.inOrder(instance, []batch{{op: config.REMOVE, pods: removes}, {op: config.ADD, pods: adds}, {op: config.UPDATE, pods: updates}})
}
