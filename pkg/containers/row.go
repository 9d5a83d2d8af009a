package containers

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// row is a version of a container. It is immutable.
type row struct {
	recorded pleg.Found
	// pod has the fields of the pod that the access rules, selectors and updates need. If no source has the pod, it has no source.
	pod *journal.Pod
	// container is what a subscriber gets that sees everything, without its pod.
	container v1alpha1.PodContainer
}

// newRow returns the row of a container after another one of it, or nil. If no source has the pod any more, that of before stays, which
// has more fields. Nothing of before stays if the container is of another pod by now.
func newRow(find Lookup, recorded *pleg.Found, before *row) *row {
	if before != nil && before.recorded.UID != recorded.UID {
		before = nil
	}
	r := &row{recorded: *recorded, container: v1alpha1.PodContainer{LookupContainer: *lookup.Container(recorded)}}
	switch pod, ended := find.PodOf(recorded); {
	case before != nil && before.pod.Source != "" && (pod == nil || ended):
		r.pod = before.pod
	case pod != nil:
		r.pod = identity(pod, recorded.UID)
	default:
		r.pod = journal.NewPod("", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: recorded.Namespace, Name: recorded.Name, UID: recorded.UID}})
	}
	if before != nil {
		r.container.Resources = before.container.Resources
		r.keepHandles(&before.container.LookupContainer)
	}
	return r
}

// identity returns a pod with only the fields that rows need: the ring must not hold whole pods. The UID is that in the runtime: of a mirror
// pod, that of its static pod.
func identity(pod *journal.Pod, uid types.UID) *journal.Pod {
	o := pod.Object
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: uid, Labels: o.Labels, OwnerReferences: o.OwnerReferences,
	}}
	if static, mirror := o.Annotations[v1.MirrorPodAnnotationKey]; mirror {
		object.Annotations = map[string]string{v1.MirrorPodAnnotationKey: static}
	}
	p := journal.NewPod(pod.Source, object)
	p.File, p.Owners = pod.File, pod.Owners
	return p
}

// keepHandles sets the handles, which the runtime does not report.
func (r *row) keepHandles(from *v1alpha1.LookupContainer) {
	c := &r.container.LookupContainer
	c.PID, c.StartTime, c.Cgroup, c.CgroupID = from.PID, from.StartTime, from.Cgroup, from.CgroupID
	c.NetNS, c.MntNS, c.PidNS, c.CgroupNS = from.NetNS, from.MntNS, from.PidNS, from.CgroupNS
}

// withHandles returns the row with the handles of a container.
func (r *row) withHandles(from *v1alpha1.LookupContainer) *row {
	next := *r
	next.keepHandles(from)
	return &next
}

// withResources returns the row with what the kubelet assigned to the container.
func (r *row) withResources(resources *v1alpha1.ContainerResources) *row {
	next := *r
	next.container.Resources = resources
	return &next
}

// equal reports whether two rows show the same.
func (r *row) equal(other *row) bool {
	a, b := r.pod, other.pod
	return reflect.DeepEqual(&r.container, &other.container) && r.recorded.UID == other.recorded.UID && a.Source == b.Source && a.File == b.File &&
		reflect.DeepEqual(a.Object, b.Object) && reflect.DeepEqual(a.Owners, b.Owners)
}

// size returns the size of what the row has of its pod, in bytes.
func (r *row) size() int {
	n := r.pod.Size()
	for i := range r.pod.Owners {
		for key, value := range r.pod.Owners[i].Labels {
			n += len(key) + len(value)
		}
	}
	return n
}

// runs reports whether the container has a process.
func (r *row) runs() bool {
	return r.recorded.Ended.IsZero() && r.recorded.Container.State == pleg.StateRunning
}

// seen returns the row as a subscriber gets it; nil if it is hidden or not selected. A nil row is.
func (r *row) seen(opts *WatchOptions, grant *access.Grant, see func(*journal.Pod) *journal.Pod) *v1alpha1.PodContainer {
	if r == nil {
		return nil
	}
	pod := see(r.pod)
	if pod == nil {
		return nil
	}
	c := r.container
	c.Pod = v1alpha1.ContainerPod{Namespace: pod.Object.Namespace, Name: pod.Object.Name, UID: string(pod.Object.UID), Source: pod.Source}
	if opts.Labels {
		c.Pod.Labels = pod.Object.Labels
	}
	if opts.Owners {
		c.Pod.Owners = pod.Owners
	}
	if grant.Of(r.pod.Source, r.pod.Object).Level() < access.Redacted {
		c.Resources = nil
	}
	return &c
}
