package podwrite

import (
	"encoding/json"
	"iter"

	v1 "k8s.io/api/core/v1"
)

func rename(c *v1.Container)                { c.Name = "a" }
func renameFirst(containers []v1.Container) { rename(&containers[0]) }
func renameLater(c *v1.Container)           { defer func() { c.Name = "a" }() }
func label(labels map[string]string)        { labels["a"] = "b" }
func first[T any](list []T, value T)        { list[0] = value }
func cloned(labels map[string]string) map[string]string {
	labels = map[string]string{}
	labels["a"] = "b"
	return labels
}

type object interface {
	GetLabels() map[string]string
	SetLabels(labels map[string]string)
}

func helped(pod, other *v1.Pod, pods iter.Seq[*v1.Pod], values []v1.Pod, data []byte) {
	rename(&pod.Spec.Containers[0])      // want `write to a pod`
	renameFirst(pod.Spec.Containers)     // want `write to a pod`
	renameLater(&pod.Spec.Containers[0]) // want `write to a pod`
	for _, rename := range []func(*v1.Container){rename} {
		rename(&pod.Spec.Containers[0]) // not known to be what writes
	}
	defer label(pod.Labels)                    // want `write to a pod`
	first(pod.Spec.Containers[0].Command, "a") // want `write to a pod`
	cloned(pod.Labels)
	pod.GetLabels()["a"] = "b"          // want `write to a pod`
	_ = json.Unmarshal(data, pod)       // want `write to a pod`
	_ = json.Unmarshal(data, &pod.Spec) // want `write to a pod`
	other.DeepCopyInto(pod)             // want `write to a pod`
	var o object = pod
	o.SetLabels(nil)         // want `write to a pod`
	o.GetLabels()["a"] = "b" // want `write to a pod`
	for pod := range pods {
		pod.Name = "a" // want `write to a pod`
	}
	for _, copied := range values {
		copied.Name = "a"
		copied.Labels["a"] = "b" // want `write to a pod`
	}
	for _, container := range pod.Spec.Containers {
		container.Name = "a"
		container.Command[0] = "a" // want `write to a pod`
	}
	own := other.DeepCopy()
	own.Spec.Containers = append(own.Spec.Containers, pod.Spec.Containers...)
	own = pod
	own.Name = "a" // want `write to a pod`
}

// append writes behind the last element if there is room.
func appended(pod *v1.Pod) *v1.Pod {
	copied := *pod
	copied.Spec.Containers = append(pod.Spec.Containers, v1.Container{}) // want `write to a pod`
	n := len(pod.Spec.Containers)
	copied.Spec.Containers = append(pod.Spec.Containers[:n:n], v1.Container{})
	return &copied
}

func unshared(data []byte) *v1.Pod {
	own := &v1.Pod{}
	_ = json.Unmarshal(data, own)
	own.GetLabels()["a"] = "b"
	label(own.Labels)
	renameFirst(own.Spec.Containers)
	var filled v1.Pod
	own.DeepCopyInto(&filled)
	filled.Labels["a"] = "b"
	label(filled.Labels)
	return own
}
