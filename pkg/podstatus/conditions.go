package podstatus

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Reasons of conditions.
//
// kubelet: pkg/kubelet/status/generate.go.
const (
	podCompleted                = "PodCompleted"
	podFailed                   = "PodFailed"
	containersNotReady          = "ContainersNotReady"
	containersNotInitialized    = "ContainersNotInitialized"
	readinessGatesNotReady      = "ReadinessGatesNotReady"
	restartAllContainersStarted = "RestartAllContainersStarted"
)

// The reason and the messages of the condition PodReadyToStartContainers.
//
// kubelet: pkg/kubelet/types/constants.go.
const (
	podSandboxNotReady                 = "PodSandboxNotReady"
	podSandboxMissing                  = "no pod sandbox exists"
	podSandboxesReady                  = "multiple pod sandboxes are ready and need to be reconciled"
	newestSandboxNotReady              = "pod sandbox is not ready"
	podSandboxNetworkNamespaceModeDiff = "network namespace mode changed and sandbox needs to be recreated"
	podSandboxWithoutIP                = "pod sandbox has no IP address"
)

// setConditions sets the conditions: first the conditions of the pod that the kubelet does not set, then the kubelet's own.
func (g *generator) setConditions(status *v1.PodStatus) {
	for _, condition := range g.pod.Status.Conditions {
		if !isOwnedByKubelet(condition.Type) {
			status.Conditions = append(status.Conditions, *condition.DeepCopy())
		}
	}
	if old := findCondition(g.old.Conditions, v1.DisruptionTarget); old != nil {
		if found := findCondition(status.Conditions, v1.DisruptionTarget); found != nil {
			*found = *old.DeepCopy()
		} else {
			status.Conditions = append(status.Conditions, *old.DeepCopy())
		}
	}
	ready := g.podReadyCondition(status)
	status.Conditions = append(status.Conditions,
		g.podReadyToStartContainersCondition(),
		g.podInitializedCondition(status),
		ready,
		g.containersReadyCondition(status),
		g.condition(v1.PodScheduled, v1.ConditionTrue, "", ""),
	)
	if allContainersCouldRestart(&g.pod.Spec) {
		status.Conditions = append(status.Conditions, g.allContainersRestartingCondition(status.Phase))
	}
}

func (g *generator) condition(kind v1.PodConditionType, status v1.ConditionStatus, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: kind, ObservedGeneration: g.pod.Generation, Status: status, Reason: reason, Message: message}
}

// kubelet: pkg/kubelet/status/generate.go GeneratePodReadyToStartContainersCondition.
func (g *generator) podReadyToStartContainersCondition() v1.PodCondition {
	if why := g.podSandboxChanged(); why != "" {
		return g.condition(v1.PodReadyToStartContainers, v1.ConditionFalse, podSandboxNotReady, why)
	}
	return g.condition(v1.PodReadyToStartContainers, v1.ConditionTrue, "", "")
}

// podSandboxChanged returns why the pod needs a new sandbox; empty if it needs none.
//
// kubelet: pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged.
func (g *generator) podSandboxChanged() (why string) {
	switch {
	case len(g.runtime.sandboxes) == 0:
		return podSandboxMissing
	case g.runtime.readySandboxes() > 1:
		return podSandboxesReady
	}
	sandbox := g.runtime.activeSandbox()
	if sandbox == nil {
		return newestSandboxNotReady
	}
	mode := runtimeapi.NamespaceMode_POD
	if g.pod.Spec.HostNetwork {
		mode = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case sandbox.GetLinux().GetNamespaces().GetOptions().GetNetwork() != mode:
		return podSandboxNetworkNamespaceModeDiff
	case !g.pod.Spec.HostNetwork && sandbox.GetNetwork() != nil && sandbox.GetNetwork().GetIp() == "":
		return podSandboxWithoutIP
	}
	return ""
}

// kubelet: pkg/kubelet/status/generate.go GeneratePodInitializedCondition.
func (g *generator) podInitializedCondition(status *v1.PodStatus) v1.PodCondition {
	initialized := g.condition(v1.PodInitialized, v1.ConditionTrue, "", "")
	var incomplete []string
	for i := range g.pod.Spec.InitContainers {
		container := &g.pod.Spec.InitContainers[i]
		found := findStatus(status.InitContainerStatuses, container.Name)
		done := found.Ready
		if isRestartableInitContainer(container) {
			done = *found.Started
		}
		if !done {
			incomplete = append(incomplete, container.Name)
		}
	}
	switch old := findCondition(g.old.Conditions, v1.PodInitialized); {
	case status.Phase == v1.PodSucceeded:
		initialized.Reason = podCompleted
		return initialized
	case slices.ContainsFunc(status.ContainerStatuses, func(status v1.ContainerStatus) bool { return status.State.Waiting == nil }):
		// A container has run. A sidecar that restarts does not undo that.
		return initialized
	case len(incomplete) == 0, old != nil && old.Status == v1.ConditionTrue:
		return initialized
	}
	message := fmt.Sprintf("containers with incomplete status: %s", incomplete) + unknownProbes(g.unknownStart(status))
	return g.condition(v1.PodInitialized, v1.ConditionFalse, containersNotInitialized, message)
}

// kubelet: pkg/kubelet/status/generate.go GenerateContainersReadyCondition.
func (g *generator) containersReadyCondition(status *v1.PodStatus) v1.PodCondition {
	switch status.Phase {
	case v1.PodSucceeded:
		return g.condition(v1.ContainersReady, v1.ConditionFalse, podCompleted, "")
	case v1.PodFailed:
		return g.condition(v1.ContainersReady, v1.ConditionFalse, podFailed, "")
	}
	var unready []string
	for container := range initAndRegular(&g.pod.Spec) {
		found := findStatus(status.ContainerStatuses, container.Name)
		if found == nil {
			if !isRestartableInitContainer(container) {
				continue
			}
			found = findStatus(status.InitContainerStatuses, container.Name)
		}
		if !found.Ready {
			unready = append(unready, container.Name)
		}
	}
	if len(unready) > 0 {
		message := fmt.Sprintf("containers with unready status: %s", unready) + unknownProbes(g.unknownReadiness(status))
		return g.condition(v1.ContainersReady, v1.ConditionFalse, containersNotReady, message)
	}
	return g.condition(v1.ContainersReady, v1.ConditionTrue, "", "")
}

// unknownProbes returns the end of a message about containers whose condition depends on probes.
func unknownProbes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(", containers whose probe results are not known here: %s", names)
}

// podReadyCondition must be called before the status has the kubelet's conditions.
//
// kubelet: pkg/kubelet/status/generate.go GeneratePodReadyCondition.
func (g *generator) podReadyCondition(status *v1.PodStatus) v1.PodCondition {
	ready := g.containersReadyCondition(status)
	ready.Type = v1.PodReady
	if ready.Status != v1.ConditionTrue {
		return ready
	}
	var messages []string
	for _, gate := range g.pod.Spec.ReadinessGates {
		condition := findCondition(status.Conditions, gate.ConditionType)
		switch {
		case condition == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case condition.Status != v1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, condition.Status))
		}
	}
	if len(messages) > 0 {
		return g.condition(v1.PodReady, v1.ConditionFalse, readinessGatesNotReady, strings.Join(messages, ", "))
	}
	return ready
}

// kubelet: pkg/kubelet/status/generate.go GenerateAllContainersRestartingCondition.
func (g *generator) allContainersRestartingCondition(phase v1.PodPhase) v1.PodCondition {
	condition := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodSucceeded:
		condition.Reason = podCompleted
	case phase == v1.PodFailed:
		condition.Reason = podFailed
	case g.shouldAllContainersRestart() && g.hasAnyContainer():
		condition.Status = v1.ConditionTrue
		condition.Reason = restartAllContainersStarted
		condition.Message = "container exited with restart policy rule"
	}
	return condition
}

// hasAnyContainer reports whether the runtime has a container of the pod.
func (g *generator) hasAnyContainer() bool {
	for container := range initAndRegular(&g.pod.Spec) {
		if g.runtime.find(container.Name) != nil {
			return true
		}
	}
	return false
}

// isOwnedByKubelet reports whether the kubelet sets the condition.
//
// kubelet: pkg/kubelet/types/pod_status.go PodConditionByKubelet.
func isOwnedByKubelet(kind v1.PodConditionType) bool {
	switch kind {
	case v1.PodScheduled, v1.PodReady, v1.PodInitialized, v1.ContainersReady, v1.PodReadyToStartContainers,
		v1.PodResizeInProgress, v1.PodResizePending, v1.AllContainersRestarting:
		return true
	}
	return false
}

func findCondition(conditions []v1.PodCondition, kind v1.PodConditionType) *v1.PodCondition {
	if i := slices.IndexFunc(conditions, func(condition v1.PodCondition) bool { return condition.Type == kind }); i >= 0 {
		return &conditions[i]
	}
	return nil
}
