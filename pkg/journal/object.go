package journal

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// Kind is a kind of objects beside the pods.
type Kind int

// The kinds.
const (
	Nodes Kind = iota
	Namespaces
	kindCount
)

// objectFactor is the memory of an object per byte of its protobuf. It is less than memoryFactor,
// which also counts the encodings of a pod.
const objectFactor = 6

// Object is one version of a node or a namespace. It is immutable.
type Object struct {
	// Object is a *v1.Node or a *v1.Namespace. It is read-only.
	Object metav1.Object
	// Revision is the revision of this version.
	Revision int64
}

// Size is the size of the object's protobuf in bytes.
func (o *Object) Size() int {
	sized, _ := o.Object.(interface{ Size() int }) // every object of the API has it
	return sized.Size()
}

// ObjectChange is the change of an object by a set.
type ObjectChange struct {
	Kind     Kind
	Revision int64
	// Before and After are the versions; nil for none.
	Before, After *Object
}

// Name returns the name of the object.
func (c *ObjectChange) Name() string { return cmp.Or(c.After, c.Before).Object.GetName() }

// size is the approximate memory of the version that the change replaced.
func (c *ObjectChange) size() int64 {
	if c.Before == nil {
		return 0
	}
	return int64(c.Before.Size()) * objectFactor
}

// objects are the current objects of each kind, by name.
type objects [kindCount]*btree.BTree[*Object]

func newObjects() (o objects) {
	for kind := range o {
		o[kind] = btree.New(degree, func(a, b *Object) bool { return a.Object.GetName() < b.Object.GetName() })
	}
	return o
}

func (o *objects) clone() (cloned objects) {
	for kind, tree := range o {
		cloned[kind] = tree.Clone()
	}
	return cloned
}

// all returns the objects of a kind, by name.
func (o *objects) all(kind Kind) []*Object {
	all := make([]*Object, 0, o[kind].Len())
	o[kind].Ascend(func(object *Object) bool { all = append(all, object); return true })
	return all
}

// named returns the object of a name, or nil.
func (o *objects) named(kind Kind, name string) *Object {
	object, _ := o[kind].Get(&Object{Object: &metav1.ObjectMeta{Name: name}})
	return object
}

// namespaces has the data from which namespaces are made.
type namespaces struct {
	// pods is the number of names in each namespace.
	pods map[string]int
	// metadata is the metadata of namespaces in the apiserver, also of those without pods
	// here.
	metadata map[string]*metav1.ObjectMeta
}

// object returns a version of the namespace.
func (n *namespaces) object(name string, revision int64) *Object {
	namespace := &v1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelMetadataName: name}},
		Status:     v1.NamespaceStatus{Phase: v1.NamespaceActive},
	}
	if meta := n.metadata[name]; meta != nil {
		namespace.ObjectMeta = *meta
		if meta.DeletionTimestamp != nil {
			namespace.Status.Phase = v1.NamespaceTerminating
		}
	}
	return &Object{namespace, revision}
}

// changeNamespaces adds changes of namespaces to the set. A namespace begins with the first name of a
// pod in it, and ends with the last. If it ends and begins in one set, it does not change. The revision
// of the change is the revision of the last pod that came to the namespace or left it. So no other
// change has it.
func (in *intake) changeNamespaces(set *Set) {
	last := make(map[string]int64)
	for _, c := range set.Names {
		namespace := cmp.Or(c.After, c.Before).Object.Namespace
		switch {
		case c.Before == nil:
			in.namespaces.pods[namespace]++
		case c.After == nil:
			in.namespaces.pods[namespace]--
		default:
			continue
		}
		last[namespace] = c.Revision
	}
	for namespace, revision := range last {
		c := ObjectChange{Kind: Namespaces, Revision: revision, Before: in.objects.named(Namespaces, namespace)}
		if in.namespaces.pods[namespace] > 0 {
			c.After = in.namespaces.object(namespace, revision)
		} else {
			delete(in.namespaces.pods, namespace)
		}
		if (c.Before == nil) != (c.After == nil) {
			in.change(set, c)
		}
	}
	slices.SortFunc(set.Objects, func(a, b ObjectChange) int { return cmp.Compare(a.Revision, b.Revision) })
}

// change adds a change to the set.
func (in *intake) change(set *Set, c ObjectChange) {
	set.Objects = append(set.Objects, c)
	set.size += c.size()
	if c.After != nil {
		in.objects[c.Kind].ReplaceOrInsert(c.After)
	} else {
		in.objects[c.Kind].Delete(c.Before)
	}
}

// restart makes the objects after a restart. Earlier changes of them were not stored, so nobody can
// resume from an earlier revision.
func (in *intake) restart(node *v1.Node, revision int64) {
	in.objects, in.namespaces.pods = newObjects(), make(map[string]int)
	if node != nil {
		in.objects[Nodes].ReplaceOrInsert(&Object{node, revision})
	}
	for _, p := range in.table.byName() {
		in.namespaces.pods[p.Object.Namespace]++
	}
	for namespace := range in.namespaces.pods {
		in.objects[Namespaces].ReplaceOrInsert(in.namespaces.object(namespace, revision))
	}
	in.begin(revision)
}

// PutNode replaces the node. Its name never changes. A node that differs from the last one
// only in its resourceVersion, managedFields and the times of its heartbeats is the same: a
// kubelet sends a heartbeat every five minutes, and the journal would hold little else.
func (j *Journal) PutNode(node *v1.Node) {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	j.put(Nodes, node.Name, func(revision int64) *Object { return &Object{node, revision} })
}

// PutNamespaces sets the metadata of all namespaces in the apiserver. The metadata of a namespace that has no pods here
// waits for its first pod.
func (j *Journal) PutNamespaces(all []*metav1.ObjectMeta) {
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	clear(in.namespaces.metadata)
	for _, meta := range all {
		in.namespaces.metadata[meta.Name] = meta
	}
	for _, namespace := range in.table.objects.all(Namespaces) {
		name := namespace.Object.GetName()
		j.put(Namespaces, name, func(revision int64) *Object { return in.namespaces.object(name, revision) })
	}
}

// put commits a new version of an object, if it differs.
func (j *Journal) put(kind Kind, name string, version func(revision int64) *Object) {
	in := &j.intake
	before, after := in.objects.named(kind, name), version(in.head+1)
	if before != nil && sameObject(before.Object, after.Object) {
		return
	}
	j.commit(in.advance(time.Now(), ObjectChange{kind, in.head + 1, before, after}))
}

// sameObject reports whether two versions are the same for subscribers.
func sameObject(a, b metav1.Object) bool {
	return apiequality.Semantic.DeepEqual(lasting(a), lasting(b))
}

// lasting returns the object without what changes all the time.
func lasting(object metav1.Object) metav1.Object {
	switch object := object.(type) {
	case *v1.Node:
		node := *object
		node.ResourceVersion, node.ManagedFields = "", nil
		node.Status.Conditions = slices.Clone(node.Status.Conditions)
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return &node
	case *v1.Namespace:
		namespace := *object
		namespace.ResourceVersion, namespace.ManagedFields = "", nil
		return &namespace
	}
	return object
}

// Objects returns the objects of a kind at a revision, by name, and the revision. 0 means the newest revision. If the
// revision is within a set, it is the revision before the set: a watch sends a set's events with the last revisions that cause
// them. The error is a CompactedError if the journal no longer has
// the revision.
func (j *Journal) Objects(kind Kind, at int64) ([]*Object, int64, error) {
	if at != 0 {
		if err := j.ObjectsResumable(at); err != nil {
			return nil, 0, err
		}
	}
	p, err := j.past(at)
	switch {
	case err != nil:
		return nil, 0, err
	case p.within != nil:
		p.revision = p.within.First - 1
	}
	return p.objects.all(kind), p.revision, nil
}

// Object returns the current object of the name, or nil.
func (j *Journal) Object(kind Kind, name string) *Object {
	return j.present().objects.named(kind, name)
}

// ObjectsResumable returns nil if a subscriber to objects can resume from the revision, and
// otherwise a CompactedError. The journal does not store objects, so nobody can resume from
// a revision of an earlier process.
func (j *Journal) ObjectsResumable(revision int64) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.objectsGoneLocked(revision)
}

func (j *Journal) objectsGoneLocked(revision int64) error {
	if revision < j.objectsFrom {
		return &CompactedError{ResetCompacted, compactedMessage(revision, j.objectsFrom-1)}
	}
	return j.goneLocked(revision)
}
