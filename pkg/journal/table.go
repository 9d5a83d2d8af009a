package journal

import (
	"cmp"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Table is the state at one revision. It is immutable. The next table shares with it what the set between them does
// not change.
type Table struct {
	revision int64
	bookmark *Bookmark
	// orphans are the pods of the newest HOUSEKEEPING; nil before the first.
	orphans []*Pod
	// pods are all pods, by namespace and name. The first of a name counts.
	pods    *btree.BTree[row]
	objects objects
	// sources are the sources that have been seen, also before a restart, by name.
	sources map[string]Source
}

// NewTable returns a table of pods. Each has the revision of its name, or 0 if that is the revision of the pod.
func NewTable(revision int64, pods iter.Seq2[*Pod, int64], sources map[string]Source) *Table {
	t := &Table{revision: revision, bookmark: new(Bookmark), pods: btree.New(degree, before), objects: newObjects(), sources: sources}
	for p, named := range pods {
		t.pods.ReplaceOrInsert(row{p, p.At(cmp.Or(named, p.Revision))})
	}
	return t
}

// row is a pod in a table.
type row struct {
	*Pod

	// named is the version that the name has. It is Pod, unless the name has another revision: the pod was present
	// before, under another name or behind another pod.
	named *Pod
}

const (
	// degree is the degree of the trees: a node has at most 15 rows.
	degree = 8
	// pathMemory is the memory of the nodes that a table does not share with the next one, for each changed pod.
	// There are at most as many as the table has, which is nodeMemory for each of its pods.
	pathMemory, nodeMemory = 1200, 40
)

// rank orders the pods of one name or UID.
type rank int8

// A mirror pod counts only if there is no other, because it is a copy of a static pod. A pivot comes before all pods of its
// name.
const (
	pivotRank rank = iota - 1
	podRank
	mirrorRank
)

func rankOf(p *v1.Pod) rank {
	if config.IsMirrorPod(p) {
		return mirrorRank
	}
	return podRank
}

// preferred orders the pods of one name or one UID. The first one counts: the first by source and UID.
func preferred(a, b *Pod) int {
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Object.UID, b.Object.UID))
}

// before is the order of a table.
func before(a, b row) bool {
	switch {
	case a.Object.Namespace != b.Object.Namespace:
		return a.Object.Namespace < b.Object.Namespace
	case a.Object.Name != b.Object.Name:
		return a.Object.Name < b.Object.Name
	}
	return preferred(a.Pod, b.Pod) < 0
}

// firstOf returns the first row with the name of a pivot; the zero row if there is none.
func firstOf(pods *btree.BTree[row], pivot *Pod) (first row) {
	pods.AscendGreaterOrEqual(row{Pod: pivot}, func(r row) bool {
		if r.Object.Name == pivot.Object.Name && r.Object.Namespace == pivot.Object.Namespace {
			first = r
		}
		return false
	})
	return first
}

// Revision returns the revision of the table.
func (t *Table) Revision() int64 { return t.revision }

// Sources returns the sources that have been seen, also before a restart, by name. The map is read-only.
func (t *Table) Sources() map[string]Source { return t.sources }

// Pods has what NewTable takes, by namespace and name.
func (t *Table) Pods() iter.Seq2[*Pod, int64] {
	return func(yield func(*Pod, int64) bool) {
		t.pods.Ascend(func(r row) bool {
			if r.named.Revision == r.Revision {
				return yield(r.Pod, 0)
			}
			return yield(r.Pod, r.named.Revision)
		})
	}
}

// all has all pods, by namespace and name.
func (t *Table) all() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) { t.pods.Ascend(func(r row) bool { return yield(r.Pod) }) }
}

// byName returns the pod of each name, by namespace and name.
func (t *Table) byName() []*Pod {
	pods := make([]*Pod, 0, t.pods.Len())
	t.pods.Ascend(func(r row) bool {
		if n := len(pods); n == 0 || pods[n-1].name() != r.name() {
			pods = append(pods, r.named)
		}
		return true
	})
	return pods
}

// byUID returns the pod of each UID, by UID.
func (t *Table) byUID() []*Pod {
	pods := slices.AppendSeq(make([]*Pod, 0, t.pods.Len()), t.all())
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Or(cmp.Compare(a.Object.UID, b.Object.UID), preferred(a, b)) })
	return slices.CompactFunc(pods, func(a, b *Pod) bool { return a.Object.UID == b.Object.UID })
}

// bySource returns all pods, by source, namespace and name.
func (t *Table) bySource() []*Pod {
	var sources []string
	var lists [][]*Pod
	at := -1
	t.pods.Ascend(func(r row) bool {
		if at < 0 || sources[at] != r.Source { // usually, it is of the same source
			if at = slices.Index(sources, r.Source); at < 0 {
				at = len(sources)
				sources, lists = append(sources, r.Source), append(lists, make([]*Pod, 0, t.pods.Len()))
			}
		}
		lists[at] = append(lists[at], r.Pod)
		return true
	})
	if len(lists) == 1 {
		return lists[0]
	}
	slices.SortFunc(lists, func(a, b []*Pod) int { return cmp.Compare(a[0].Source, b[0].Source) })
	return slices.Concat(lists...)
}

// withUID returns the pod of a UID, or nil. It looks at all pods.
func (t *Table) withUID(uid types.UID) (found *Pod) {
	for p := range t.all() {
		if p.Object.UID == uid && (found == nil || preferred(p, found) < 0) {
			found = p
		}
	}
	return found
}

// withName returns the pod of a name, or nil.
func (t *Table) withName(name types.NamespacedName) *Pod {
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	return firstOf(t.pods, &Pod{Object: object, rank: pivotRank}).named
}

// inNamespace has the pod of each name in a namespace.
func (t *Table) inNamespace(namespace string) iter.Seq[*Pod] {
	pivot := &Pod{Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, rank: pivotRank}
	return func(yield func(*Pod) bool) {
		var last *Pod
		t.pods.AscendGreaterOrEqual(row{Pod: pivot}, func(r row) bool {
			if r.Object.Namespace != namespace {
				return false
			}
			if last != nil && last.Object.Name == r.Object.Name {
				return true
			}
			last = r.Pod
			return yield(r.named)
		})
	}
}

// namedWithin returns the pod of each name after the changes of a set up to a revision. The table is the one before
// the set.
func (t *Table) namedWithin(set *Set, revision int64) []*Pod {
	changed := make(map[types.NamespacedName]*Pod)
	for _, c := range set.Names {
		if c.Revision <= revision {
			changed[cmp.Or(c.After, c.Before).name()] = c.After
		}
	}
	pods := slices.DeleteFunc(t.byName(), func(p *Pod) bool { _, ok := changed[p.name()]; return ok })
	for _, p := range changed {
		if p != nil {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return config.ComparePods(a.Object, b.Object) })
	return pods
}
