package podstatus

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
)

// counts has the numbers of containers that determine the phase of a pod.
type counts struct {
	// Init containers that are not sidecars.
	initPending, initFailed int
	// Sidecars that have not started.
	sidecarPending int
	// Sidecars and regular containers.
	unknown, running, waiting int
	// Regular containers that have ended. final counts the containers that are not restarted.
	stopped, final, succeeded int
}

// getPhase returns the phase of the pod. Started must be set in all statuses.
//
// kubelet: pkg/kubelet/kubelet_pods.go getPhase.
func (g *generator) getPhase(status *v1.PodStatus) v1.PodPhase {
	var c counts
	spec := &g.pod.Spec
	for i := range spec.InitContainers {
		container := &spec.InitContainers[i]
		found := findStatus(status.InitContainerStatuses, container.Name)
		if isRestartableInitContainer(container) {
			c.addSidecar(found)
		} else {
			c.addInit(container, spec, found)
		}
	}
	for i := range spec.Containers {
		c.addRegular(&spec.Containers[i], spec, findStatus(status.ContainerStatuses, spec.Containers[i].Name))
	}

	// Once containers of the pod have run, a sidecar that restarts does not make it pending.
	sidecarPending := c.sidecarPending > 0 && !g.runtime.hasAnyActiveRegularContainerStarted(spec)
	switch {
	case c.initFailed > 0:
		return v1.PodFailed
	case c.initPending > 0 || sidecarPending || c.waiting > 0 || c.unknown > 0:
		return v1.PodPending
	case c.running > 0:
		return v1.PodRunning
	case c.stopped == 0:
		return v1.PodPending
	case c.stopped != c.final && (!g.isTerminated() || isStaticPod(g.pod)):
		// A container is about to be restarted.
		return v1.PodRunning
	case c.stopped == c.succeeded:
		return v1.PodSucceeded
	default:
		return v1.PodFailed
	}
}

// isTerminated reports whether the pod was deleted and has stopped. Then no container is restarted, whatever its policy.
func (g *generator) isTerminated() bool {
	return g.pod.DeletionTimestamp != nil && g.runtime.isStopped()
}

func (c *counts) addInit(container *v1.Container, spec *v1.PodSpec, status *v1.ContainerStatus) {
	terminated := lastTermination(status)
	switch {
	case terminated == nil:
		c.initPending++
	case terminated.ExitCode != 0 && !isRestartable(container, spec, terminated):
		c.initFailed++
	}
}

func (c *counts) addSidecar(status *v1.ContainerStatus) {
	switch {
	case status == nil:
		c.unknown++
	case status.State.Running != nil:
		if status.Started == nil || !*status.Started {
			c.sidecarPending++
		}
		c.running++
	case lastTermination(status) != nil:
		// A sidecar that has stopped does not count.
	case status.State.Waiting != nil:
		c.sidecarPending++
		c.waiting++
	default:
		c.sidecarPending++
		c.unknown++
	}
}

func (c *counts) addRegular(container *v1.Container, spec *v1.PodSpec, status *v1.ContainerStatus) {
	terminated := lastTermination(status)
	switch {
	case status == nil:
		c.unknown++
	case status.State.Running != nil:
		c.running++
	case terminated != nil:
		c.stopped++
		if !isRestartable(container, spec, terminated) {
			c.final++
		}
		if status.State.Terminated != nil && terminated.ExitCode == 0 {
			c.succeeded++
		}
	case status.State.Waiting != nil:
		c.waiting++
	default:
		c.unknown++
	}
}

// lastTermination returns how a container that does not run ended: its state, or its last state if it waits. It returns nil if
// the container runs or never ran.
func lastTermination(status *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case status == nil || status.State.Running != nil:
		return nil
	case status.State.Terminated != nil:
		return status.State.Terminated
	case status.State.Waiting != nil:
		return status.LastTerminationState.Terminated
	}
	return nil
}

func isRestartable(container *v1.Container, spec *v1.PodSpec, terminated *v1.ContainerStateTerminated) bool {
	return terminated.Reason == restartingAllContainers || containerShouldRestart(container, spec, terminated.ExitCode)
}

// keepPhase keeps a terminal phase. If the phase did not change, it keeps the reason and the message.
func (g *generator) keepPhase(status *v1.PodStatus) {
	if !isTerminal(status.Phase) {
		switch {
		case isTerminal(g.old.Phase):
			status.Phase = g.old.Phase
		case isTerminal(g.pod.Status.Phase):
			status.Phase = g.pod.Status.Phase
		}
	}
	if status.Phase == g.old.Phase {
		status.Reason = cmp.Or(g.old.Reason, g.pod.Status.Reason)
		status.Message = cmp.Or(g.old.Message, g.pod.Status.Message)
	}
	// A terminal phase in the apiserver is final.
	if isTerminal(g.pod.Status.Phase) {
		status.Phase = g.pod.Status.Phase
	}
}

func isTerminal(phase v1.PodPhase) bool {
	return phase == v1.PodFailed || phase == v1.PodSucceeded
}

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
