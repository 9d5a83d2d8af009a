package podstatus

import (
	"cmp"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels and annotations of containers and pods, and the number of attempts that a status shows.
//
// kubelet: pkg/kubelet/kuberuntime/labels.go.
const (
	containerNameLabel         = "io.kubernetes.container.name"
	restartCountAnnotation     = "io.kubernetes.container.restartCount"
	configSourceAnnotation     = "kubernetes.io/config.source"
	configSourceApiserver      = "api"
	maxAttempts            int = 2
)

// runtimeStatus is a record, ordered with the newest first. Attempts count before times, because a clock can be set back. The
// kubelet orders by the creation time alone.
//
// kubelet: pkg/kubelet/kuberuntime/helpers.go podSandboxByCreatedThenID.
type runtimeStatus struct {
	sandboxes  []*runtimeapi.PodSandboxStatus
	containers []*runtimeapi.ContainerStatus
}

func newRuntimeStatus(record *Record) runtimeStatus {
	status := runtimeStatus{slices.Clone(record.Sandboxes), slices.Clone(record.Containers)}
	slices.SortFunc(status.sandboxes, func(a, b *runtimeapi.PodSandboxStatus) int {
		return cmp.Or(
			cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
			cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
			cmp.Compare(a.GetId(), b.GetId()),
		)
	})
	slices.SortFunc(status.containers, func(a, b *runtimeapi.ContainerStatus) int {
		return cmp.Or(
			cmp.Compare(restartCount(b), restartCount(a)),
			cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
			cmp.Compare(a.GetId(), b.GetId()),
		)
	})
	return status
}

// attempts returns the last two attempts of the container, the newest first.
func (r runtimeStatus) attempts(name string) []*runtimeapi.ContainerStatus {
	var found []*runtimeapi.ContainerStatus
	for _, container := range r.containers {
		if containerName(container) == name && len(found) < maxAttempts {
			found = append(found, container)
		}
	}
	return found
}

// find returns the newest attempt of the container, or nil.
//
// kubelet: pkg/kubelet/container/runtime.go FindContainerStatusByName.
func (r runtimeStatus) find(name string) *runtimeapi.ContainerStatus {
	for _, container := range r.containers {
		if containerName(container) == name {
			return container
		}
	}
	return nil
}

// activeSandbox returns the newest sandbox if it is ready, otherwise nil.
func (r runtimeStatus) activeSandbox() *runtimeapi.PodSandboxStatus {
	if len(r.sandboxes) == 0 || r.sandboxes[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil
	}
	return r.sandboxes[0]
}

func (r runtimeStatus) readySandboxes() (count int) {
	for _, sandbox := range r.sandboxes {
		if sandbox.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			count++
		}
	}
	return count
}

// isStopped reports whether nothing of the pod runs.
func (r runtimeStatus) isStopped() bool {
	return r.readySandboxes() == 0 && !slices.ContainsFunc(r.containers, func(container *runtimeapi.ContainerStatus) bool {
		return container.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
	})
}

// hasAnyActiveRegularContainerStarted reports whether a regular container of the pod was created in its present sandbox. The
// status of a container does not name its sandbox. A container that is older than the sandbox belongs to an earlier one.
//
// kubelet: pkg/kubelet/container/helpers.go HasAnyActiveRegularContainerStarted.
func (r runtimeStatus) hasAnyActiveRegularContainerStarted(spec *v1.PodSpec) bool {
	sandbox := r.activeSandbox()
	return sandbox != nil && slices.ContainsFunc(r.containers, func(container *runtimeapi.ContainerStatus) bool {
		return container.GetCreatedAt() >= sandbox.GetCreatedAt() && hasContainer(spec.Containers, containerName(container))
	})
}

// hasAnyRegularContainerCreated reports whether a regular container of the pod was created, in any of its sandboxes.
//
// kubelet: pkg/kubelet/kuberuntime/kuberuntime_container.go HasAnyRegularContainerCreated.
func (r runtimeStatus) hasAnyRegularContainerCreated(spec *v1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(container v1.Container) bool {
		found := r.find(container.Name)
		return found != nil && found.GetState() != runtimeapi.ContainerState_CONTAINER_UNKNOWN
	})
}

func hasContainer(containers []v1.Container, name string) bool {
	return slices.ContainsFunc(containers, func(container v1.Container) bool { return container.Name == name })
}

// containerName returns the name of a container. Only containers that a kubelet created have the label.
func containerName(container *runtimeapi.ContainerStatus) string {
	if name, ok := container.GetLabels()[containerNameLabel]; ok {
		return name
	}
	return container.GetMetadata().GetName()
}

// restartCount returns the restart count of a container. Only containers that a kubelet created have the annotation.
func restartCount(container *runtimeapi.ContainerStatus) int32 {
	if count, err := strconv.ParseInt(container.GetAnnotations()[restartCountAnnotation], 10, 32); err == nil {
		return int32(count)
	}
	return int32(container.GetMetadata().GetAttempt())
}

// isStaticPod reports whether the pod is from another source than an apiserver.
//
// kubelet: pkg/kubelet/types/pod_update.go IsStaticPod.
func isStaticPod(pod *v1.Pod) bool {
	source, ok := pod.Annotations[configSourceAnnotation]
	return ok && source != configSourceApiserver
}
