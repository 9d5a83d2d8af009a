package journal

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// An index has one pod for each name, or for each UID. Where several sources have one,
// that is the first by source and UID, and a mirror pod only where there is no other:
// it is the image of a static pod.

func preferred(a, b *Pod) int {
	if am, bm := config.IsMirrorPod(a.Object), config.IsMirrorPod(b.Object); am != bm {
		if bm {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Object.UID, b.Object.UID))
}

// index has all pods of each key, the one that counts first.
type index[K comparable] struct {
	key  func(*Pod) K
	pods map[K][]*Pod
	// touched are the keys that the present set has touched so far, and at where each is.
	touched []touch[K]
	at      map[K]int
}

// touch is what a set did to a key.
type touch[K comparable] struct {
	key    K
	before *Pod
	// first and last are the revisions of the first and the last pod that did it.
	first, last int64
}

func newIndex[K comparable](key func(*Pod) K) index[K] {
	return index[K]{key: key, pods: make(map[K][]*Pod), at: make(map[K]int)}
}

// of returns the pod of the key, or nil.
func (x *index[K]) of(key K) *Pod {
	if pods := x.pods[key]; len(pods) > 0 {
		return pods[0]
	}
	return nil
}

// replace puts after in the place of before at a revision. Either may be nil.
func (x *index[K]) replace(before, after *Pod, revision int64) {
	if before != nil {
		key := x.key(before)
		x.touch(key, revision)
		pods := slices.DeleteFunc(x.pods[key], func(p *Pod) bool { return p.key() == before.key() })
		if x.pods[key] = pods; len(pods) == 0 {
			delete(x.pods, key)
		}
	}
	if after != nil {
		key := x.key(after)
		x.touch(key, revision)
		n, _ := slices.BinarySearchFunc(x.pods[key], after, preferred)
		x.pods[key] = slices.Insert(x.pods[key], n, after)
	}
}

func (x *index[K]) touch(key K, revision int64) {
	n, there := x.at[key]
	if !there {
		x.at[key] = len(x.touched)
		x.touched = append(x.touched, touch[K]{key, x.of(key), revision, revision})
		return
	}
	x.touched[n].last = revision
}

// take returns what the present set touched, and begins the next.
func (x *index[K]) take() []touch[K] {
	touched := x.touched
	x.touched = nil
	clear(x.at)
	return touched
}

// changes returns what the set that ends here does to the keys.
func (x *index[K]) changes() []Change {
	var changes []Change
	for _, t := range x.take() {
		if after := x.of(t.key); after != t.before {
			changes = append(changes, Change{Before: t.before, After: after})
		}
	}
	return changes
}

// nameChange is a change of a name.
type nameChange struct {
	Change

	name types.NamespacedName
}

// revised returns what the set that ends here does to the keys, each change with a
// revision of its own: that of the pod that made it, where no other change has it, and
// else one after head. It returns the new head too. A key whose pod has another UID
// than before has two changes, that the one goes and that the other comes.
func revised(names *index[types.NamespacedName], head int64) ([]Change, int64) {
	var all []nameChange
	for _, t := range names.take() {
		before, after := t.before, names.of(t.key)
		switch {
		case before == after:
		case before != nil && after != nil && before.Object.UID != after.Object.UID:
			all = append(all, nameChange{Change{t.first, before, nil}, t.key}, nameChange{Change{t.last, nil, after}, t.key})
		default:
			all = append(all, nameChange{Change{t.last, before, after}, t.key})
		}
	}
	slices.SortStableFunc(all, func(a, b nameChange) int { return cmp.Compare(a.Revision, b.Revision) })
	changes, late := make([]Change, 0, len(all)), []nameChange(nil)
	last := int64(0)
	for _, c := range all {
		if c.Revision == last || slices.ContainsFunc(late, func(l nameChange) bool { return l.name == c.name }) {
			late = append(late, c)
			continue
		}
		last = c.Revision
		changes = append(changes, c.Change)
	}
	for _, c := range late {
		head++
		c.Revision = head
		changes = append(changes, c.Change)
	}
	for i, c := range changes {
		if c.After == nil || c.After.Revision == c.Revision {
			continue
		}
		// By its name the pod is of this revision: it was present before, under another
		// name or behind another pod, or the change is a late one.
		changes[i].After = c.After.at(c.Revision)
		names.pods[c.After.name()][0] = changes[i].After
	}
	return changes, head
}
