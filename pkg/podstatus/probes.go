package podstatus

import (
	v1 "k8s.io/api/core/v1"
)

// updatePodStatus sets Started and Ready. The results of probes are not known here. So a container with a startup probe counts
// as not started, and a container with a readiness probe counts as not ready.
//
// kubelet: pkg/kubelet/prober/prober_manager.go UpdatePodStatus.
func (g *generator) updatePodStatus(status *v1.PodStatus) {
	for i := range g.pod.Spec.Containers {
		container := &g.pod.Spec.Containers[i]
		found := findStatus(status.ContainerStatuses, container.Name)
		if updateStarted(container, found) {
			found.Ready = container.ReadinessProbe == nil
		}
	}
	for i := range g.pod.Spec.InitContainers {
		container := &g.pod.Spec.InitContainers[i]
		found := findStatus(status.InitContainerStatuses, container.Name)
		started := updateStarted(container, found)
		switch {
		case isRestartableInitContainer(container):
			found.Ready = found.Ready || started && container.ReadinessProbe == nil
		case found.State.Terminated != nil && found.State.Terminated.ExitCode == 0:
			found.Ready = true
		}
	}
}

func updateStarted(container *v1.Container, status *v1.ContainerStatus) bool {
	started := status.State.Running != nil && container.StartupProbe == nil
	status.Started = &started
	return started
}

// unknownReadiness returns the running containers whose readiness depends on a probe, in the order of the condition's message.
func (g *generator) unknownReadiness(status *v1.PodStatus) []string {
	var names []string
	for container := range initAndRegular(&g.pod.Spec) {
		if container.ReadinessProbe == nil && container.StartupProbe == nil {
			continue
		}
		found := findStatus(status.InitContainerStatuses, container.Name)
		if found == nil {
			found = findStatus(status.ContainerStatuses, container.Name)
		} else if !isRestartableInitContainer(container) {
			continue
		}
		if found.State.Running != nil {
			names = append(names, container.Name)
		}
	}
	return names
}

// unknownStart returns the running sidecars whose start depends on a probe.
func (g *generator) unknownStart(status *v1.PodStatus) []string {
	var names []string
	for i := range g.pod.Spec.InitContainers {
		container := &g.pod.Spec.InitContainers[i]
		if container.StartupProbe != nil && isRestartableInitContainer(container) &&
			findStatus(status.InitContainerStatuses, container.Name).State.Running != nil {
			names = append(names, container.Name)
		}
	}
	return names
}
