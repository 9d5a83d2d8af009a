package podwrite

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

type holder struct {
	pod  *v1.Pod
	pods map[string]*v1.Pod
}

func parameter(pod *v1.Pod, pods []*v1.Pod, values []v1.Pod) {
	pod.Name = "a"                              // want `write to a pod that other parts may share`
	pod.Status.Phase += "a"                     // want `write to a pod`
	pod.Labels["a"] = "b"                       // want `write to a pod`
	*pod = v1.Pod{}                             // want `write to a pod`
	pod.Spec.Containers[0].Command[0] = "a"     // want `write to a pod`
	delete(pod.Labels, "a")                     // want `write to a pod`
	maps.Copy(pod.Labels, pod.Labels)           // want `write to a pod`
	slices.Sort(pod.Spec.Containers[0].Command) // want `write to a pod`
	pod.SetLabels(nil)                          // want `write to a pod`
	values[0].Name = "a"                        // want `write to a pod`
	for _, pod := range pods {
		pod.Name = "a" // want `write to a pod`
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		container.Name = "a" // want `write to a pod`
	}
	labels := pod.Labels
	labels["a"] = "b" // want `write to a pod`
	defer func() {
		pod.Name = "b" // want `write to a pod`
	}()
	pods[0] = nil
}

func (h *holder) held(received <-chan *v1.Pod, get func() *v1.Pod, a any) {
	h.pod.Name = "a"       // want `write to a pod`
	h.pods["a"].Name = "a" // want `write to a pod`
	for _, pod := range h.pods {
		pod.Name = "a" // want `write to a pod`
	}
	(<-received).Name = "a" // want `write to a pod`
	get().Name = "a"        // want `write to a pod`
	if pod, ok := a.(*v1.Pod); ok {
		pod.Name = "a" // want `write to a pod`
	}
	select {
	case pod := <-received:
		pod.Name = "a" // want `write to a pod`
	default:
	}
	pod := h.pod
	if pod == nil {
		pod = &v1.Pod{}
	}
	pod.Name = "a" // want `write to a pod`
	h.pod = pod
	h.pods["a"] = pod
}

// A copy of the struct shares its maps and slices.
func shallow(pod *v1.Pod) *v1.Pod {
	copied := *pod
	copied.Name = "a"
	copied.Spec.Containers[0].Name = "a" // want `write to a pod`
	copied.Labels["a"] = "b"             // want `write to a pod`
	copied.Annotations = maps.Clone(pod.Annotations)
	copied.Annotations["a"] = "b"
	meta := &v1.Pod{ObjectMeta: pod.ObjectMeta}
	meta.Labels["a"] = "b" // want `write to a pod`
	return &copied
}

func private(pod *v1.Pod, labels map[string]string) *v1.Pod {
	own := pod.DeepCopy()
	own.Labels["a"] = "b"
	made := &v1.Pod{}
	made.Labels = map[string]string{}
	made.Labels["a"] = "b"
	made.Spec.Containers = append(made.Spec.Containers, v1.Container{})
	made.Spec.Containers[0].Name = "a"
	containers := slices.Clone(pod.Spec.Containers)
	containers[0].Name = "a"
	labels["a"] = "b" // not known to be of a pod
	func() { own.Name = "a" }()
	pod.Name = "a" //nolint:podwrite // the caller has just made it
	pod.Name = "b" /* want `write to a pod` */ //nolint:podwrite
	return own
}

func silent(pod *v1.Pod) { //nolint:podwrite // the caller has just made it
	pod.Name = "a"
}
