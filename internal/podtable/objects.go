package podtable

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

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
