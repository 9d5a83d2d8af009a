package devices

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// Table is what the kubelet assigned to the containers of each pod. It is immutable. A nil table has no pods.
type Table struct {
	// at is when the kubelet was asked; zero for never.
	at   time.Time
	pods map[Pod][]v1alpha1.ContainerResources
}

// NewTable returns a table of what was assigned at a time.
func NewTable(at time.Time, pods map[Pod][]v1alpha1.ContainerResources) *Table {
	return &Table{at: at, pods: pods}
}

// Known reports whether the kubelet has answered once.
func (t *Table) Known() bool { return t != nil && !t.at.IsZero() }

// Of returns the resources of the containers of a pod. A mirror pod has those of its static pod: PodOf returns the pod to ask for.
func (t *Table) Of(pod Pod) []v1alpha1.ContainerResources {
	if t == nil {
		return nil
	}
	return t.pods[pod]
}

// All returns the pods with resources, ordered by UID, namespace and name.
func (t *Table) All() iter.Seq2[Pod, []v1alpha1.ContainerResources] {
	return func(yield func(Pod, []v1alpha1.ContainerResources) bool) {
		if t == nil {
			return
		}
		for _, pod := range slices.SortedFunc(maps.Keys(t.pods), func(a, b Pod) int {
			return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		}) {
			if !yield(pod, t.pods[pod]) {
				return
			}
		}
	}
}

// Has reports whether a container has a device: RESOURCE:ID, or DRIVER:POOL/DEVICE for a device of a claim.
func Has(r *v1alpha1.ContainerResources, device string) bool {
	for resource, id := range r.Named() {
		if rest, ok := strings.CutPrefix(device, resource); ok && rest == ":"+id {
			return true
		}
	}
	return false
}

// only returns the table with only some pods.
func (t *Table) only(kept map[types.NamespacedName]types.UID) *Table {
	some := &Table{at: t.at, pods: maps.Clone(t.pods)}
	maps.DeleteFunc(some.pods, func(pod Pod, _ []v1alpha1.ContainerResources) bool {
		uid, is := kept[pod.NamespacedName]
		return !is || uid != pod.UID
	})
	return some
}

// resourcesOf returns what a list has of each name, also if that is nothing. If it has a name twice, that is
// nothing: it is not known which pod is which.
func resourcesOf(list []*podresourcesv1.PodResources) map[types.NamespacedName][]v1alpha1.ContainerResources {
	seen := make(map[types.NamespacedName]int)
	all := make(map[types.NamespacedName][]v1alpha1.ContainerResources)
	for _, p := range list {
		name := types.NamespacedName{Namespace: p.GetNamespace(), Name: p.GetName()}
		seen[name]++
		all[name] = nil
		rows := append([]*podresourcesv1.ContainerResources{{CpuIds: p.GetCpuIds(), Memory: p.GetMemory()}}, p.GetContainers()...)
		for _, c := range rows {
			if r := containerResources(c); r != nil {
				all[name] = append(all[name], *r)
			}
		}
	}
	for name, n := range seen {
		if n > 1 {
			all[name] = nil
		}
	}
	return all
}

// containerResources returns what a container has; nil for nothing.
func containerResources(c *podresourcesv1.ContainerResources) *v1alpha1.ContainerResources {
	r := &v1alpha1.ContainerResources{Container: c.GetName(), CPUs: c.GetCpuIds(), Devices: devicesOf(c.GetDevices())}
	for _, m := range c.GetMemory() {
		r.Memory = append(r.Memory, v1alpha1.MemoryBlock{Type: m.GetMemoryType(), Size: m.GetSize(), NUMA: numaOf(m.GetTopology())})
	}
	for _, claim := range c.GetDynamicResources() {
		claimed := v1alpha1.ClaimedDevices{Claim: claim.GetClaimName()}
		for _, d := range claim.GetClaimResources() {
			device := v1alpha1.ClaimedDevice{Driver: d.GetDriverName(), Pool: d.GetPoolName(), Device: d.GetDeviceName(), ShareID: d.GetShareId()}
			for _, cdi := range d.GetCdiDevices() {
				device.CDI = append(device.CDI, cdi.GetName())
			}
			claimed.Devices = append(claimed.Devices, device)
		}
		r.DynamicResources = append(r.DynamicResources, claimed)
	}
	if len(r.Devices)+len(r.CPUs)+len(r.Memory)+len(r.DynamicResources) == 0 {
		return nil
	}
	return r
}

// devicesOf returns devices in a defined order. The kubelet has a row for each NUMA node of a resource, or for each device.
func devicesOf(rows []*podresourcesv1.ContainerDevices) (all []v1alpha1.Devices) {
	index := make(map[string]int) // of a resource and its NUMA nodes
	for _, row := range rows {
		numa := numaOf(row.GetTopology())
		key := fmt.Sprint(row.GetResourceName(), numa)
		i, is := index[key]
		if !is {
			i = len(all)
			index[key], all = i, append(all, v1alpha1.Devices{Resource: row.GetResourceName(), NUMA: numa})
		}
		all[i].IDs = append(all[i].IDs, row.GetDeviceIds()...)
	}
	for i := range all {
		slices.Sort(all[i].IDs)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Devices) int {
		if c := strings.Compare(a.Resource, b.Resource); c != 0 {
			return c
		}
		return slices.Compare(a.NUMA, b.NUMA)
	})
	return all
}

func numaOf(topology *podresourcesv1.TopologyInfo) (nodes []int64) {
	for _, n := range topology.GetNodes() {
		nodes = append(nodes, n.GetID())
	}
	return nodes
}

// Pod identifies a pod. Its UID alone does not: everybody who may create pods can write any UID in the annotation of a mirror pod.
type Pod struct {
	types.NamespacedName

	UID types.UID
}

// PodOf returns by what the kubelet runs a pod. For a mirror pod, it is its static pod, which has the same name.
//
// kubelet: pkg/kubelet/pod/mirror_client.go CreateMirrorPod.
func PodOf(pod *v1.Pod) Pod {
	p := Pod{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID}
	if static, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; mirror {
		p.UID = types.UID(static)
	}
	return p
}

func isCompleted(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// live returns the pods that the kubelet runs, by name. It leaves out names that several such pods have. Before the first list of the
// runtime, they are not known.
func (l *Lister) live() (live map[types.NamespacedName]types.UID, known bool) {
	var inRuntime []*pleg.Pod
	if l.opts.Runtime != nil {
		if inRuntime, known = l.opts.Runtime(); !known {
			return nil, false
		}
	}
	running := make(map[types.UID]bool, len(inRuntime)) // of each pod of the runtime, whether a container runs
	for _, p := range inRuntime {
		running[p.UID] = slices.ContainsFunc(p.Containers, func(c pleg.Container) bool { return c.State == pleg.StateRunning })
	}
	live = make(map[types.NamespacedName]types.UID)
	add := func(name types.NamespacedName, uid types.UID) {
		if other, taken := live[name]; taken && other != uid {
			uid = ""
		}
		live[name] = uid
	}
	ofSources, completed := make(map[types.NamespacedName]bool), make(map[Pod]bool)
	all := l.opts.Journal.State().Pods
	for _, p := range all { // static pods have no status of their own
		if pod := PodOf(p.Object); pod.UID != p.Object.UID && isCompleted(p.Object) && !running[pod.UID] {
			completed[pod] = true
		}
	}
	for _, p := range all {
		pod := PodOf(p.Object)
		ofSources[pod.NamespacedName] = true
		_, taken := running[pod.UID]
		if l.opts.Runtime == nil {
			taken = p.Object.Status.StartTime != nil
		}
		if taken && !completed[pod] && !isCompleted(p.Object) {
			add(pod.NamespacedName, pod.UID)
		}
	}
	for _, p := range inRuntime { // pods that no source has
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		if !ofSources[name] && running[p.UID] {
			add(name, p.UID)
		}
	}
	for name, uid := range live {
		if uid == "" {
			delete(live, name)
		}
	}
	return live, true
}
