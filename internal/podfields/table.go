package podfields

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Cells returns the cells of a pod in the columns of the apiserver: name, ready, status, restarts, age, and the wide columns.
// test/conformance compares them with the apiserver.
//
// apiserver: k8s.io/kubernetes/pkg/printers/internalversion printPod.
func Cells(pod *v1.Pod, now time.Time) []any {
	s := summarize(pod)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts += fmt.Sprintf(" (%s ago)", since(s.lastRestart, now))
	}
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name, fmt.Sprintf("%d/%d", s.ready, s.containers), s.reason, restarts, since(pod.CreationTimestamp, now),
		orNone(ip), orNone(pod.Spec.NodeName), orNone(pod.Status.NominatedNodeName), gates(pod),
	}
}

// Images returns the images of the containers of a pod.
func Images(pod *v1.Pod) (images []string) {
	for i := range pod.Spec.Containers {
		images = append(images, pod.Spec.Containers[i].Image)
	}
	return images
}

func since(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// gates returns how many of the readiness gates of the pod are open.
func gates(pod *v1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if c := condition(pod, gate.ConditionType); c != nil && c.Status == v1.ConditionTrue {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}

func condition(pod *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// NodeCells returns the cells of a node in the columns of the apiserver.
//
// apiserver: k8s.io/kubernetes/pkg/printers/internalversion printNode.
func NodeCells(node *v1.Node, now time.Time) []any {
	info := &node.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		node.Name, nodeStatus(node), orNone(strings.Join(nodeRoles(node), ",")), since(node.CreationTimestamp, now), info.KubeletVersion,
		address(node, v1.NodeInternalIP), address(node, v1.NodeExternalIP),
		orUnknown(info.OSImage), kernel, orUnknown(info.ContainerRuntimeVersion),
	}
}

func nodeStatus(node *v1.Node) string {
	status := "Unknown"
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			status = "NotReady"
			if c.Status == v1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// Labels that name roles of a node.
const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

func nodeRoles(node *v1.Node) []string {
	var roles []string
	for label, value := range node.Labels {
		if role, ok := strings.CutPrefix(label, rolePrefix); ok && role != "" {
			roles = append(roles, role)
		} else if label == roleLabel && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func address(node *v1.Node, kind v1.NodeAddressType) string {
	for i := range node.Status.Addresses {
		if a := &node.Status.Addresses[i]; a.Type == kind {
			return a.Address
		}
	}
	return "<none>"
}

func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}

// NamespaceCells returns the cells of a namespace in the columns of the apiserver.
//
// apiserver: k8s.io/kubernetes/pkg/printers/internalversion printNamespace.
func NamespaceCells(namespace *v1.Namespace, now time.Time) []any {
	return []any{namespace.Name, string(namespace.Status.Phase), since(namespace.CreationTimestamp, now)}
}

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
