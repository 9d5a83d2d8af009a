package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/pleg"
)

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
