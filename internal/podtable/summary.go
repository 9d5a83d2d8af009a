package podtable

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// summary is the part of a row that depends on the containers of a pod.
type summary struct {
	ready, containers int
	reason            string
	restarts          int
	lastRestart       metav1.Time
}

// nodeLost is the status reason of pods on a node that can't be reached.
//
// kubelet: NodeUnreachablePodReason in pkg/util/node.
const nodeLost = "NodeLost"

// summarize returns the summary of a pod.
//
// apiserver: k8s.io/kubernetes/pkg/printers/internalversion printPod.
func summarize(pod *v1.Pod) *summary {
	s := &summary{
		containers: len(pod.Spec.Containers),
		reason:     cmp.Or(pod.Status.Reason, string(pod.Status.Phase)),
	}
	if slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Reason == v1.PodReasonSchedulingGated
	}) {
		s.reason = v1.PodReasonSchedulingGated
	}
	initializing, sidecars := s.initContainers(pod)
	if c := condition(pod, v1.PodInitialized); !initializing || (c != nil && c.Status == v1.ConditionTrue) {
		// Restarts of completed init containers are not shown, except for sidecars.
		s.restarts, s.lastRestart = sidecars.restarts, sidecars.lastRestart
		s.mainContainers(pod)
	}
	terminal := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && pod.Status.Reason == nodeLost:
		s.reason = "Unknown"
	case pod.DeletionTimestamp != nil && !terminal:
		s.reason = "Terminating"
	}
	return s
}

// count adds the restarts of a container. A runtime that does not tell when a container finished leaves the beginning of Unix time.
func (s *summary) count(c *v1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.Unix() > 0 && s.lastRestart.Before(&t.FinishedAt) {
		s.lastRestart = t.FinishedAt
	}
}

// initContainers adds the init containers up to the first one that has not completed. initializing means that there is one.
// sidecars has the restarts of the sidecars alone.
func (s *summary) initContainers(pod *v1.Pod) (initializing bool, sidecars summary) {
	isSidecar := make(map[string]bool)
	for i := range pod.Spec.InitContainers {
		if policy := pod.Spec.InitContainers[i].RestartPolicy; policy != nil && *policy == v1.ContainerRestartPolicyAlways {
			isSidecar[pod.Spec.InitContainers[i].Name] = true
			s.containers++
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		s.count(c)
		if isSidecar[c.Name] {
			sidecars.count(c)
		}
		terminated, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case terminated != nil && terminated.ExitCode == 0:
			continue
		case isSidecar[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case terminated != nil:
			s.reason = "Init:" + exit(terminated)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return true, sidecars
	}
	return false, sidecars
}

// mainContainers adds the containers in reverse order, so that the reason of the pod is that of the first container with one.
func (s *summary) mainContainers(pod *v1.Pod) {
	running, failure := false, ""
	for i := range slices.Backward(pod.Status.ContainerStatuses) {
		c := &pod.Status.ContainerStatuses[i]
		s.count(c)
		terminated, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case waiting != nil && waiting.Reason != "":
			s.reason = waiting.Reason
		case terminated != nil:
			s.reason = exit(terminated)
			if terminated.ExitCode != 0 {
				failure = s.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason != "Completed" {
		return
	}
	ready := condition(pod, v1.PodReady)
	switch {
	case running && ready != nil && ready.Status == v1.ConditionTrue:
		s.reason = "Running"
	case failure != "":
		s.reason = failure
	case running:
		s.reason = "NotReady"
	}
}

// exit returns the reason why a container ended.
func exit(t *v1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
