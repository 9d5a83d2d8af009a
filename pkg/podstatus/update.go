package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxTerminationMessages is the limit of all termination messages of a pod in bytes. Each container has an equal share.
//
// kubelet: pkg/kubelet/container/runtime.go MaxPodTerminationMessageLogLength.
const maxTerminationMessages = 12 << 10

// updateStatus sets what depends on the previous status: transition times, the start time and the generation.
//
// kubelet: pkg/kubelet/status/status_manager.go updateStatusInternal.
func (g *generator) updateStatus(status *v1.PodStatus) {
	now := metav1.NewTime(time.Unix(g.in.Now.Unix(), 0))
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if !isOwnedByKubelet(condition.Type) {
			continue
		}
		condition.LastTransitionTime = now
		if old := findCondition(g.old.Conditions, condition.Type); old != nil && old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	status.StartTime = g.startTime(now)
	status.ObservedGeneration = max(g.pod.Generation, g.old.ObservedGeneration)

	limit := maxTerminationMessages
	if containers := len(g.pod.Spec.Containers) + len(g.pod.Spec.InitContainers) + len(g.pod.Spec.EphemeralContainers); containers > 0 {
		limit /= containers
	}
	for _, statuses := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range statuses {
			truncateMessage(statuses[i].State.Terminated, limit)
			truncateMessage(statuses[i].LastTerminationState.Terminated, limit)
		}
	}
}

func truncateMessage(terminated *v1.ContainerStateTerminated, limit int) {
	if terminated != nil && len(terminated.Message) > limit {
		terminated.Message = terminated.Message[:limit]
	}
}

// startTime returns when the pod started. It never changes. If there is no previous status, for example after a restart without
// a state directory, it is when the oldest sandbox was created. The kubelet would take the time of its own restart.
func (g *generator) startTime(now metav1.Time) *metav1.Time {
	if !g.old.StartTime.IsZero() {
		return g.old.StartTime.DeepCopy()
	}
	if count := len(g.runtime.sandboxes); count > 0 {
		if created := unixTime(g.runtime.sandboxes[count-1].GetCreatedAt()); created.Before(&now) {
			return &created
		}
	}
	return &now
}

// isIllegalTransition reports whether a container that has ended for good would run again. Then the kubelet keeps the previous
// status.
//
// kubelet: pkg/kubelet/status/status_manager.go checkContainerStateTransition.
func (g *generator) isIllegalTransition(status *v1.PodStatus) bool {
	spec := &g.pod.Spec
	if spec.RestartPolicy == v1.RestartPolicyAlways || allContainersCouldRestart(spec) {
		return false
	}
	for container := range initAndRegular(spec) {
		old, now := findStatus(g.old.ContainerStatuses, container.Name), findStatus(status.ContainerStatuses, container.Name)
		if now == nil {
			if isRestartableInitContainer(container) {
				continue
			}
			old, now = findStatus(g.old.InitContainerStatuses, container.Name), findStatus(status.InitContainerStatuses, container.Name)
		}
		if old == nil || old.State.Terminated == nil || now.State.Terminated != nil {
			continue
		}
		exitCode := old.State.Terminated.ExitCode
		if exitCode != 0 && spec.RestartPolicy == v1.RestartPolicyOnFailure {
			continue
		}
		if !containerShouldRestart(container, spec, exitCode) {
			return true
		}
	}
	return false
}

// terminatePod ends a pod that does not run and never will. A container whose end is not known has failed, and the phase becomes
// terminal.
//
// kubelet: pkg/kubelet/status/status_manager.go TerminatePod.
func (g *generator) terminatePod(status *v1.PodStatus) {
	if g.pod.DeletionTimestamp == nil && !isTerminal(status.Phase) || !g.runtime.isStopped() {
		return
	}
	if g.hasPodInitialized(status) {
		terminate(status.ContainerStatuses)
	}
	terminate(initializedContainers(status.InitContainerStatuses))
	if !isStaticPod(g.pod) && !isTerminal(status.Phase) {
		status.Phase = v1.PodFailed
	}
}

func terminate(statuses []v1.ContainerStatus) {
	for i := range statuses {
		if statuses[i].State.Terminated == nil {
			statuses[i].State = v1.ContainerState{Terminated: unlocatedContainer()}
		}
	}
}

// hasPodInitialized reports whether the containers of the pod have run, or could have.
//
// kubelet: pkg/kubelet/status/status_manager.go hasPodInitialized.
func (g *generator) hasPodInitialized(status *v1.PodStatus) bool {
	spec, statuses := g.pod.Spec.InitContainers, status.InitContainerStatuses
	if len(spec) == 0 {
		return true
	}
	for i := range status.ContainerStatuses {
		if container := &status.ContainerStatuses[i]; container.LastTerminationState.Terminated != nil || container.State.Waiting == nil {
			return true
		}
	}
	// The status that came with the pod can have other containers than the pod.
	i := len(statuses) - 1
	if i < 0 || i >= len(spec) || spec[i].Name != statuses[i].Name {
		return false
	}
	last := &statuses[i]
	if isRestartableInitContainer(&spec[i]) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	for _, terminated := range []*v1.ContainerStateTerminated{last.LastTerminationState.Terminated, last.State.Terminated} {
		if terminated != nil && terminated.ExitCode == 0 {
			return true
		}
	}
	return false
}

// initializedContainers returns the init containers up to the last one that ran, and at least one.
//
// kubelet: pkg/kubelet/status/status_manager.go initializedContainers.
func initializedContainers(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	for i, status := range slices.Backward(statuses) {
		if status.State.Waiting == nil || status.LastTerminationState.Terminated != nil {
			return statuses[:i+1]
		}
	}
	return statuses[:min(1, len(statuses))]
}

func unixTime(nanoseconds int64) metav1.Time {
	return metav1.NewTime(time.Unix(0, nanoseconds).Truncate(time.Second))
}

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
