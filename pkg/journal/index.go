package journal

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// preferred orders the pods of one name or one UID. The first one counts: the first by source and
// UID. A mirror pod counts only if there is no other, because it is a copy of a static pod.
func preferred(a, b *Pod) int {
	if am, bm := config.IsMirrorPod(a.Object), config.IsMirrorPod(b.Object); am != bm {
		if bm {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Object.UID, b.Object.UID))
}

// index has all pods of each key. The pod that counts is the first.
type index[K comparable] struct {
	key  func(*Pod) K
	pods map[K][]*Pod
	// touched are the keys that the current set has changed, and at is the position of
	// each.
	touched []touch[K]
	at      map[K]int
}

// touch is the change of a key by a set.
type touch[K comparable] struct {
	key    K
	before *Pod
	// first and last are the revisions of the first and the last pod that changed the
	// key.
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

// first returns the pod of each key.
func (x *index[K]) first() map[K]*Pod {
	pods := make(map[K]*Pod, len(x.pods))
	for key, all := range x.pods {
		pods[key] = all[0]
	}
	return pods
}

// renumber gives the pod another revision in this index, if it is the pod of its key.
func (x *index[K]) renumber(p *Pod, revision int64) {
	if pods := x.pods[x.key(p)]; pods[0].key() == p.key() {
		pods[0] = pods[0].At(revision)
	}
}

// replace replaces before by after at a revision. Either may be nil.
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
	n, ok := x.at[key]
	if !ok {
		x.at[key] = len(x.touched)
		x.touched = append(x.touched, touch[K]{key, x.of(key), revision, revision})
		return
	}
	x.touched[n].last = revision
}

// take returns what the current set has touched, and starts the next set.
func (x *index[K]) take() []touch[K] {
	touched := x.touched
	x.touched = nil
	clear(x.at)
	return touched
}

// changes returns the changes of the keys by the set that ends here.
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

// revised returns the changes of the names by the set that ends here, and the new head. Each change
// has its own revision: the revision of the pod that caused it. If another change has this revision
// already, it is one after head. A name whose new pod has another UID has two changes: the old pod
// is removed, and the new one is added.
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
	isLate := make(map[types.NamespacedName]bool)
	last := int64(0)
	for _, c := range all {
		if c.Revision == last || isLate[c.name] {
			late = append(late, c)
			isLate[c.name] = true
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
		// In this index, the pod has this revision. It was present before under another
		// name or behind another pod, or the change has a revision after head.
		changes[i].After = c.After.At(c.Revision)
		names.pods[c.After.name()][0] = changes[i].After
	}
	return changes, head
}
