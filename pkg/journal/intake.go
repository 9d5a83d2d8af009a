package journal

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// intake gives revisions to updates, and writes the next table. While a set is being stored, the intake is ahead of
// what subscribers can read.
type intake struct {
	// mu guards the fields below. It is locked before Journal.mu.
	mu sync.Mutex
	// pending are the updates of a set that is not complete yet.
	pending []config.PodUpdate
	// table is the newest one. The fields after it are of the next one.
	table    *Table
	head     int64
	names    names
	uids     uids
	objects  objects
	bookmark *Bookmark

	// sources are those of the next table, and replaced when one changes.
	sources map[string]Source

	namespaces namespaces
	// owners returns the owners of a pod; nil if nobody knows them.
	owners func(*Pod) []v1alpha1.Owner
}

func newIntake(head int64, bookmark *Bookmark) intake {
	return intake{
		head: head, bookmark: bookmark, objects: newObjects(),
		names:      names{pods: btree.New(degree, before)},
		uids:       uids{pods: make(map[types.UID][]*Pod), at: make(map[types.UID]struct{})},
		namespaces: namespaces{pods: make(map[string]int), metadata: make(map[string]*metav1.ObjectMeta)},
	}
}

// begin makes a table of all that the intake has.
func (in *intake) begin(revision int64) {
	in.table = &Table{
		revision: revision, bookmark: in.bookmark, pods: in.names.pods.Clone(), objects: in.objects.clone(), sources: in.sources,
	}
}

// finishSet ends a set with the newest revision, and makes the table after it.
func (in *intake) finishSet(set *Set) *Set {
	next := *in.table
	next.revision, next.bookmark, next.sources = in.head, in.bookmark, in.sources
	for _, u := range set.Updates {
		switch {
		case u.Op == config.HOUSEKEEPING:
			next.orphans = u.Pods
		case u.Op.IsConfig(), u.Op == config.OWNERS:
			next.pods = in.names.pods.Clone()
		}
	}
	if len(set.Objects) > 0 {
		next.objects = in.objects.clone()
	}
	set.Revision, set.Bookmark, set.before, set.After = in.head, in.bookmark, in.table, &next
	set.size += set.nodes()
	in.table = set.After
	return set
}

// sourceOf returns the name of a current pod's source. The annotation of the pod is not enough: it
// has only the kind of the source.
func (in *intake) sourceOf(pod *v1.Pod) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.uids.pods[pod.UID] {
		if p.Merged == pod {
			return p.Source
		}
	}
	return pod.Annotations[config.ConfigSourceAnnotationKey]
}

// number gives revisions to the updates of a set and applies them to the state.
func (in *intake) number(updates []config.PodUpdate, prepared [][]*Pod, event *v1alpha1.Event, now time.Time) *Set {
	set := &Set{First: in.head + 1, Time: now}
	for i, u := range updates {
		pods := make([]*Pod, 2*len(u.Pods))
		update := &Update{
			First: in.head + 1, Time: now, Op: u.Op, Source: u.Source, StatusOnly: u.StatusOnly, Event: event,
			Pods: pods[:len(u.Pods):len(u.Pods)], Before: pods[len(u.Pods):],
		}
		if len(u.Pods) == 0 {
			in.head++
		}
		for k, object := range u.Pods {
			in.head++
			var next *Pod
			if prepared[i] != nil {
				next = prepared[i][k]
			}
			if u.Op == config.OWNERS {
				in.own(set, update, k, next)
			} else {
				in.applyPod(set, update, k, object, next)
			}
		}
		update.Revision = in.head
		set.Updates = append(set.Updates, update)
		if u.Op.IsConfig() && u.Source != "" && !u.StatusOnly {
			in.seen(u, now)
			if !u.More {
				in.remember(set, u.Source, u.Attributes)
			}
		}
	}
	if updates[0].Op != config.OWNERS {
		set.Names, in.head = in.names.changes(in.table.pods, in.head)
	}
	set.UIDs = in.uids.changes()
	in.changeNamespaces(set)
	set.Updates[len(set.Updates)-1].Revision = in.head
	return in.finishSet(set)
}

// advance returns a set without updates, with the next revision.
func (in *intake) advance(now time.Time, changes ...ObjectChange) *Set {
	in.head++
	set := &Set{First: in.head, Time: now}
	for _, c := range changes {
		in.change(set, c)
	}
	return in.finishSet(set)
}

// applyPod applies one pod of an update to the state. prepared is its version.
func (in *intake) applyPod(set *Set, u *Update, n int, object *v1.Pod, prepared *Pod) {
	before := in.uids.find(u.Source, object.UID)
	pod := prepared
	switch {
	case u.Op == config.REMOVE && before == nil: // the merge removes only what it added
		pod = NewPod(u.Source, object).At(in.head)
	case u.Op == config.REMOVE, before != nil && before.Merged == object && (!u.Op.IsConfig() || before.Status == pod.Status):
		pod = before
	default:
		pod.Revision = in.head
		if before != nil {
			pod.Owners = before.Owners // others come with an OWNERS: not all subscribers that request owners get this update
		} else if u.Op.IsConfig() && in.owners != nil {
			pod.Owners = in.owners(pod)
		}
	}
	u.Pods[n], u.Before[n] = pod, before
	u.Mirrors = u.Mirrors || config.IsMirrorPod(object) || (before != nil && config.IsMirrorPod(before.Object))
	present := before
	if u.Op.IsConfig() {
		if present = pod; u.Op == config.REMOVE {
			present = nil
		}
		in.names.replace(before, present, in.head)
		in.uids.replace(before, present)
	}
	// A version that is no longer current belongs to the set that replaced it. Nothing
	// else holds it longer.
	if before != nil && before != present {
		set.size += int64(before.size) * memoryFactor
	}
	if pod != before && pod != present {
		set.size += int64(pod.size) * memoryFactor
	}
}

// own replaces the version of a pod by the same version with other owners, or leaves it.
func (in *intake) own(set *Set, u *Update, n int, pod *Pod) {
	before := in.uids.find(u.Source, pod.Object.UID)
	u.Pods[n], u.Before[n], u.Mirrors = pod, before, u.Mirrors || config.IsMirrorPod(pod.Object)
	if pod == before {
		return
	}
	if change, first := in.names.own(before, pod, in.head); first {
		set.Names = append(set.Names, change)
	}
	in.uids.replace(before, pod)
	set.size += int64(before.size) * encodedFactor
}

// seen records the first update of a source. It is never a REMOVE: another update follows
// in the first set.
func (in *intake) seen(u config.PodUpdate, now time.Time) {
	if u.Op == config.REMOVE {
		return
	}
	if !in.bookmark.Sources[u.Source].Seen {
		in.bookmark = in.bookmark.with(u.Source)
	}
	if !in.sources[u.Source].Seen {
		in.put(Source{Name: u.Source, Seen: true, Time: now})
	}
}

// put replaces what is known of a source. A source that is not seen is forgotten.
func (in *intake) put(s Source) {
	sources := make(map[string]Source, len(in.sources)+1)
	maps.Copy(sources, in.sources)
	if sources[s.Name] = s; !s.Seen {
		delete(sources, s.Name)
	}
	in.sources = sources
}

// remember records the attributes of a source with the set, if they changed.
func (in *intake) remember(set *Set, source string, attributes map[string]string) {
	if maps.Equal(in.sources[source].Attributes, attributes) {
		return
	}
	next := Source{Name: source, Seen: true, Time: set.Time, Attributes: attributes}
	in.put(next)
	set.Sources = append(set.Sources, next)
}
