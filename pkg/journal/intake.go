package journal

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// intake gives revisions to updates. While a set is being stored, the intake is ahead of
// what subscribers can read, so it has a state of its own.
type intake struct {
	// mu guards the fields below. It is locked before Journal.mu.
	mu sync.Mutex
	// pending are the updates of a set that is not complete yet.
	pending  []config.PodUpdate
	head     int64
	state    map[podKey]*Pod
	names    index[types.NamespacedName]
	uids     index[types.UID]
	objects  objects
	bookmark *Bookmark

	namespaces namespaces
	// attributes has, for each source, the attributes that were stored last.
	attributes map[string]map[string]string
}

func newIntake(head int64, bookmark *Bookmark) intake {
	return intake{
		head: head, bookmark: bookmark, state: make(map[podKey]*Pod),
		names: newIndex((*Pod).name), uids: newIndex((*Pod).uid), objects: newObjects(),
		namespaces: namespaces{pods: make(map[string]int), metadata: make(map[string]*metav1.ObjectMeta)},
		attributes: make(map[string]map[string]string),
	}
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
		update := &Update{
			First: in.head + 1, Time: now, Op: u.Op, Source: u.Source, StatusOnly: u.StatusOnly, Event: event,
			Pods: make([]*Pod, len(u.Pods)), Before: make([]*Pod, len(u.Pods)),
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
			in.take(set, update, k, object, next)
		}
		update.Revision = in.head
		set.Updates = append(set.Updates, update)
		if u.Op.IsConfig() && u.Source != "" && !u.StatusOnly {
			in.seen(u)
			if !u.More {
				in.remember(set, u.Source, u.Attributes)
			}
		}
	}
	set.Names, in.head = revised(&in.names, in.head)
	set.UIDs = in.uids.changes()
	in.changeNamespaces(set)
	set.Revision = in.head
	set.Updates[len(set.Updates)-1].Revision = in.head
	set.Bookmark = in.bookmark
	return set
}

// advance returns a set without updates, with the next revision.
func (in *intake) advance(now time.Time) *Set {
	in.head++
	return &Set{First: in.head, Revision: in.head, Time: now, Bookmark: in.bookmark}
}

// take applies one pod of an update to the state. prepared is its version.
func (in *intake) take(set *Set, u *Update, n int, object *v1.Pod, prepared *Pod) {
	key := podKey{u.Source, object.UID}
	before := in.state[key]
	pod := prepared
	switch {
	case u.Op == config.REMOVE && before == nil: // the merge removes only what it added
		pod = NewPod(u.Source, object).At(in.head)
	case u.Op == config.REMOVE, before != nil && before.Merged == object && (!u.Op.IsConfig() || before.Status == pod.Status):
		pod = before
	default:
		pod.Revision = in.head
	}
	u.Pods[n], u.Before[n] = pod, before
	u.Mirrors = u.Mirrors || config.IsMirrorPod(object) || (before != nil && config.IsMirrorPod(before.Object))
	switch {
	case !u.Op.IsConfig():
	case u.Op == config.REMOVE:
		delete(in.state, key)
		in.names.replace(before, nil, in.head)
		in.uids.replace(before, nil, in.head)
	default:
		in.state[key] = pod
		in.names.replace(before, pod, in.head)
		in.uids.replace(before, pod, in.head)
	}
	// A version that is no longer current belongs to the set that replaced it. Nothing
	// else holds it longer.
	present := in.state[key]
	if before != nil && before != present {
		set.size += int64(before.size) * memoryFactor
	}
	if pod != before && pod != present {
		set.size += int64(pod.size) * memoryFactor
	}
}

// seen records the first update of a source. It is never a REMOVE: another update follows
// in the first set.
func (in *intake) seen(u config.PodUpdate) {
	if u.Op != config.REMOVE && !in.bookmark.Sources[u.Source].Seen {
		in.bookmark = in.bookmark.with(u.Source)
	}
}

// remember records the attributes of a source with the set, if they changed.
func (in *intake) remember(set *Set, source string, attributes map[string]string) {
	known := in.attributes[source]
	if len(known) == 0 && len(attributes) == 0 || maps.Equal(known, attributes) {
		return
	}
	in.attributes[source] = attributes
	set.Sources = append(set.Sources, Source{Name: source, Seen: true, Time: set.Time, Attributes: attributes})
}
