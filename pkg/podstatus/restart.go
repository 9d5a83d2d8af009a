package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// isRestartableInitContainer reports whether the init container is a sidecar.
//
// kubelet: pkg/api/v1/pod/util.go IsRestartableInitContainer.
func isRestartableInitContainer(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// containerShouldRestart reports whether a container is restarted after it exited. The rules of the container decide, otherwise
// its policy, otherwise the policy of the pod.
//
// kubelet: pkg/api/v1/pod/util.go ContainerShouldRestart.
func containerShouldRestart(container *v1.Container, spec *v1.PodSpec, exitCode int32) bool {
	if container.RestartPolicy != nil {
		switch matchingRestartAction(container, exitCode) {
		case v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers:
			return true
		}
		switch *container.RestartPolicy {
		case v1.ContainerRestartPolicyAlways:
			return true
		case v1.ContainerRestartPolicyOnFailure:
			return exitCode != 0
		case v1.ContainerRestartPolicyNever:
			return false
		}
	}
	switch spec.RestartPolicy {
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	case v1.RestartPolicyNever:
		return false
	}
	return true
}

// matchingRestartAction returns the action of the first rule that matches the exit code.
//
// kubelet: pkg/api/v1/pod/util.go FindMatchingContainerRestartRule.
func matchingRestartAction(container *v1.Container, exitCode int32) v1.ContainerRestartRuleAction {
	for _, rule := range container.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, exitCode)
		switch rule.ExitCodes.Operator {
		case v1.ContainerRestartRuleOnExitCodesOpIn:
			if listed {
				return rule.Action
			}
		case v1.ContainerRestartRuleOnExitCodesOpNotIn:
			if !listed {
				return rule.Action
			}
		}
	}
	return ""
}

// allContainersCouldRestart reports whether a rule of the pod restarts all its containers.
//
// kubelet: pkg/api/v1/pod/util.go AllContainersCouldRestart.
func allContainersCouldRestart(spec *v1.PodSpec) bool {
	for container := range initAndRegular(spec) {
		for _, rule := range container.RestartPolicyRules {
			if rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// shouldAllContainersRestart reports whether one container exited in such a way that all containers of the pod restart.
//
// kubelet: pkg/kubelet/container/helpers.go ShouldAllContainersRestart.
func (g *generator) shouldAllContainersRestart() bool {
	if condition := findCondition(g.old.Conditions, v1.AllContainersRestarting); condition != nil && condition.Status == v1.ConditionTrue {
		return true
	}
	old := slices.Concat(g.old.InitContainerStatuses, g.old.ContainerStatuses)
	for container := range initAndRegular(&g.pod.Spec) {
		found := g.runtime.find(container.Name)
		if found == nil || found.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			continue
		}
		if restartsAll(container, found.GetExitCode()) {
			return true
		}
		status := findStatus(old, container.Name)
		if status != nil && status.State.Terminated != nil && restartsAll(container, status.State.Terminated.ExitCode) {
			return true
		}
	}
	return false
}

func restartsAll(container *v1.Container, exitCode int32) bool {
	return matchingRestartAction(container, exitCode) == v1.ContainerRestartRuleActionRestartAllContainers
}

// initAndRegular yields the init containers and the containers of a pod.
func initAndRegular(spec *v1.PodSpec) func(yield func(*v1.Container) bool) {
	return func(yield func(*v1.Container) bool) {
		for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				if !yield(&containers[i]) {
					return
				}
			}
		}
	}
}
