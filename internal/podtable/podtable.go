// Package podtable makes the rows of the tables that kubectl shows of pods, nodes and namespaces:
//
//	podtable.Cells(pod, time.Now()) // web-node1, 1/1, Running, 0, 5m, ...
package podtable

import (
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
