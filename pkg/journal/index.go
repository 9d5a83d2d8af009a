package journal

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// names are the pods by name, as the current set changes them.
type names struct {
	pods *btree.BTree[row]
	// touched are the names that the current set has changed. A name can be there several times.
	touched []touchedName
	pivot   Pod // is used again
}

// touchedName is the name of a pod that the current set has changed.
type touchedName struct {
	object *v1.Pod
	// first and last are the revisions of the first and the last pod that changed the name.
	first, last int64
	// after has replaced before in its row. Both are nil if it did not, or if the name was changed several times.
	before, after *Pod
}

// replace replaces before by after at a revision. Either may be nil.
func (n *names) replace(before, after *Pod, revision int64) {
	if before != nil && (after == nil || after.name() != before.name()) {
		n.touched = append(n.touched, touchedName{object: before.Object, first: revision, last: revision})
	}
	if after != nil {
		t := touchedName{object: after.Object, first: revision, last: revision}
		old, inPlace := n.pods.ReplaceOrInsert(row{after, after})
		if inPlace {
			t.before, t.after = old.named, after
		}
		if n.touched = append(n.touched, t); inPlace {
			return
		}
	}
	if before != nil {
		n.pods.Delete(row{Pod: before})
	}
}

// first returns the first row with the name of an object, in the pods of now or before.
func (n *names) first(pods *btree.BTree[row], object *v1.Pod) row {
	n.pivot = Pod{Object: object, rank: pivotRank}
	defer func() { n.pivot.Object = nil }()
	return firstOf(pods, &n.pivot)
}

// renumber gives the pod another revision under its name, if it is the pod of its name. It returns this version.
func (n *names) renumber(p *Pod, revision int64) *Pod {
	r := n.first(n.pods, p.Object)
	if r.Pod == nil || r.key() != p.key() {
		return p
	}
	r.named = r.At(revision)
	n.pods.ReplaceOrInsert(r)
	return r.named
}

// own replaces a pod by the same version with other owners. It returns the change of its name. first is false if the name has
// another pod.
func (n *names) own(before, after *Pod, revision int64) (change Change, first bool) {
	old, _ := n.pods.Get(row{Pod: before})
	named := after.At(old.named.Revision)
	n.pods.ReplaceOrInsert(row{after, named})
	return Change{revision, old.named, named}, n.first(n.pods, after.Object).Pod == after
}

// once returns the names that the current set has changed, each once.
func (n *names) once() []touchedName {
	if len(n.touched) < 2 {
		return n.touched
	}
	at := make(map[types.NamespacedName]int, len(n.touched))
	once := n.touched[:0]
	for _, t := range n.touched {
		name := types.NamespacedName{Namespace: t.object.Namespace, Name: t.object.Name}
		if i, ok := at[name]; ok {
			once[i].last, once[i].before, once[i].after = t.last, nil, nil
			continue
		}
		at[name] = len(once)
		once = append(once, t)
	}
	return once
}

// nameChange is a change of a name.
type nameChange struct {
	Change

	name types.NamespacedName
}

// change returns the pod of a name before and after the set. past are the pods before the set.
func (n *names) change(past *btree.BTree[row], t *touchedName) (before, after *Pod) {
	r := n.first(n.pods, t.object)
	if t.after != nil && r.Pod == t.after { // usually
		return t.before, r.named
	}
	return n.first(past, t.object).named, r.named
}

// changes returns the changes of the names by the set that ends here, and the new head. Each change
// has its own revision: the revision of the pod that caused it. If another change has this revision
// already, it is one after head. A name whose new pod has another UID has two changes: the old pod
// is removed, and the new one is added. past are the pods before the set.
func (n *names) changes(past *btree.BTree[row], head int64) ([]Change, int64) {
	all := make([]nameChange, 0, 2) // usually, it is enough
	for _, t := range n.once() {
		before, after := n.change(past, &t)
		name := types.NamespacedName{Namespace: t.object.Namespace, Name: t.object.Name}
		switch {
		case before == after:
		case before != nil && after != nil && before.Object.UID != after.Object.UID:
			all = append(all, nameChange{Change{t.first, before, nil}, name}, nameChange{Change{t.last, nil, after}, name})
		default:
			all = append(all, nameChange{Change{t.last, before, after}, name})
		}
	}
	n.touched = reuse(n.touched)
	slices.SortStableFunc(all, func(a, b nameChange) int { return cmp.Compare(a.Revision, b.Revision) })
	changes, late := make([]Change, 0, len(all)), []nameChange(nil)
	isLate := map[types.NamespacedName]bool(nil)
	last := int64(0)
	for _, c := range all {
		if c.Revision == last || isLate[c.name] {
			if late = append(late, c); isLate == nil {
				isLate = make(map[types.NamespacedName]bool)
			}
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
		changes[i].After = n.renumber(c.After, c.Revision)
	}
	return changes, head
}

// reuse empties a list for the next set, or drops it if it is long.
func reuse[T any](list []T) []T {
	if cap(list) > 64 {
		return nil
	}
	return slices.Delete(list, 0, len(list))
}

// uids are the pods by UID, as the current set changes them. The first of a UID counts.
type uids struct {
	pods map[types.UID][]*Pod
	// touched has the pod of each UID before the current set, if the set has changed it, in order.
	touched []touchedUID
	at      map[types.UID]struct{}
}

type touchedUID struct {
	uid    types.UID
	before *Pod
}

// current returns the pod of the UID, or nil.
func (u *uids) current(uid types.UID) *Pod {
	if pods := u.pods[uid]; len(pods) > 0 {
		return pods[0]
	}
	return nil
}

// find returns the pod of a source with the UID, or nil.
func (u *uids) find(source string, uid types.UID) *Pod {
	for _, p := range u.pods[uid] {
		if p.Source == source {
			return p
		}
	}
	return nil
}

// replace replaces before by after, a pod of the same source and UID. Either may be nil.
func (u *uids) replace(before, after *Pod) {
	p := cmp.Or(before, after)
	if p == nil {
		return
	}
	uid := p.Object.UID
	if _, ok := u.at[uid]; !ok {
		u.at[uid] = struct{}{}
		u.touched = append(u.touched, touchedUID{uid, u.current(uid)})
	}
	pods := u.pods[uid]
	if before != nil {
		pods = slices.DeleteFunc(pods, func(p *Pod) bool { return p.Source == before.Source })
	}
	if after != nil {
		i, _ := slices.BinarySearchFunc(pods, after, preferred)
		pods = slices.Insert(pods, i, after)
	}
	if u.pods[uid] = pods; len(pods) == 0 {
		delete(u.pods, uid)
	}
}

// changes returns the changes of the UIDs by the set that ends here, and starts the next set.
func (u *uids) changes() (changes []Change) {
	for _, t := range u.touched {
		if after := u.current(t.uid); after != t.before {
			changes = append(changes, Change{Before: t.before, After: after})
		}
	}
	u.touched = reuse(u.touched)
	if len(u.at) > 8 {
		u.at = make(map[types.UID]struct{}) // clearing a large map takes long
	}
	clear(u.at)
	return changes
}
