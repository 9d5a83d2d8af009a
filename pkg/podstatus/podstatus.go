// Package podstatus computes the status of a pod from the state of its containers in the runtime, by the rules of the kubelet:
//
//	status := podstatus.Generate(podstatus.Input{Pod: pod, Record: record, Previous: previous, Node: node, Now: time.Now()})
//
// Generate is a pure function of its input. The functions have the names of the kubelet's functions. The feature gates have
// the defaults of the kubelet version in go.mod.
//
// A status never says more than the runtime reports. Only the kubelet that runs the pod knows the results of probes, the
// deadlines of a pod, and why a container can't be created.
package podstatus

import (
	"net"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"
)

// Record has what the runtime reports about a pod. It is immutable.
//
// kubelet: pkg/kubelet/container/runtime.go PodStatus.
type Record struct {
	// Sandboxes and Containers have all sandboxes and containers of the pod, in any order.
	Sandboxes  []*runtimeapi.PodSandboxStatus
	Containers []*runtimeapi.ContainerStatus
}

// Node has the facts about the node that a status needs.
type Node struct {
	// Runtime is the name of the runtime, such as "containerd". The IDs of containers begin with it.
	Runtime string
	// IPs has one address of the node, or one of each IP family. The first one is the host IP.
	IPs []string
	// Minor is the minor version of the kubelet whose rules apply, such as 36; 0 for the newest.
	Minor int
}

// Input is the input of Generate.
type Input struct {
	Pod *v1.Pod
	// Record is nil without a runtime, and before the runtime has answered.
	Record *Record
	// Previous is the last status that Generate returned for the pod; nil for none.
	Previous *v1.PodStatus
	Node     Node
	Now      time.Time
}

// Reading is the record of the pod with a UID.
type Reading struct {
	UID types.UID
	// Record is empty if the runtime has nothing of the pod.
	Record *Record
	// Runtime is the name of the runtime.
	Runtime string
}

// Generate returns the status of a pod. It does not change its input, and the status shares no memory with it.
//
// Without a record, it returns the previous status if that has containers. Otherwise, it returns the status that the pod came
// with, and adds the addresses of the node if the pod uses the host network.
func Generate(in Input) *v1.PodStatus {
	if in.Record == nil {
		return withoutRecord(in)
	}
	g := newGenerator(in)
	status := g.convertStatusToAPIStatus()
	if g.isIllegalTransition(status) {
		g.terminatePod(g.old)
		return g.old
	}
	g.generateAPIPodStatus(status)
	g.updateStatus(status)
	return status
}

func withoutRecord(in Input) *v1.PodStatus {
	if in.Previous != nil && len(in.Previous.ContainerStatuses) > 0 {
		return in.Previous.DeepCopy()
	}
	status := in.Pod.Status.DeepCopy()
	if in.Pod.Spec.HostNetwork && status.PodIP == "" {
		setHostIPs(status, in.Node.IPs)
		setHostNetworkPodIPs(status, in.Node.IPs)
	}
	return status
}

// generator has the input of Generate in the form that the rules need.
type generator struct {
	pod     *v1.Pod
	runtime runtimeStatus
	// old is a copy of the previous status.
	old  *v1.PodStatus
	node Node
	in   Input
}

func newGenerator(in Input) *generator {
	old := in.Previous
	if old == nil {
		old = &in.Pod.Status
	}
	return &generator{
		pod:     in.Pod,
		runtime: newRuntimeStatus(in.Record),
		old:     old.DeepCopy(),
		node:    in.Node,
		in:      in,
	}
}

// generateAPIPodStatus completes a status that has only the containers.
//
// kubelet: pkg/kubelet/kubelet_pods.go generateAPIPodStatus.
func (g *generator) generateAPIPodStatus(status *v1.PodStatus) {
	g.updatePodStatus(status)
	status.Phase = g.getPhase(status)
	g.keepPhase(status)
	g.terminatePod(status)
	g.setConditions(status)
	setHostIPs(status, g.node.IPs)
	if g.pod.Spec.HostNetwork {
		setHostNetworkPodIPs(status, g.node.IPs)
	}
}

// kubelet: pkg/kubelet/kubelet_pods.go convertStatusToAPIStatus.
func (g *generator) convertStatusToAPIStatus() *v1.PodStatus {
	status := &v1.PodStatus{QOSClass: podQOS(g.pod, g.node.Minor)}
	setPodIPs(status, sortPodIPs(g.podIPs(), g.node.IPs))

	spec := &g.pod.Spec
	restarting := g.shouldAllContainersRestart()
	status.ContainerStatuses = g.containerStatuses(spec.Containers, g.old.ContainerStatuses, regular, restarting)
	status.InitContainerStatuses = g.containerStatuses(spec.InitContainers, g.old.InitContainerStatuses, initial, restarting)
	var ephemerals []v1.Container
	for i := range spec.EphemeralContainers {
		ephemerals = append(ephemerals, v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	status.EphemeralContainerStatuses = g.containerStatuses(ephemerals, g.old.EphemeralContainerStatuses, ephemeral, restarting)

	setPodResources(status, g.pod)
	// These fields stay as they are in the apiserver. The kubelet writes only one of them, the health of volumes, which
	// is not known here.
	apiserver := g.pod.Status.DeepCopy()
	status.ResourceClaimStatuses = apiserver.ResourceClaimStatuses
	status.ExtendedResourceClaimStatus = apiserver.ExtendedResourceClaimStatus
	status.NodeAllocatableResourceClaimStatuses = apiserver.NodeAllocatableResourceClaimStatuses
	status.VolumeHealth = apiserver.VolumeHealth
	return status
}

// podIPs returns the addresses of the pod that the runtime reports. A pod whose sandboxes
// have stopped keeps the addresses that it had.
//
// kubelet: pkg/kubelet/pleg/generic.go getPodIPs.
func (g *generator) podIPs() []string {
	if ips := sandboxIPs(g.runtime.activeSandbox()); len(ips) > 0 {
		return ips
	}
	if g.runtime.readySandboxes() > 0 {
		return nil
	}
	var ips []string
	for _, ip := range g.old.PodIPs {
		ips = append(ips, ip.IP)
	}
	if len(ips) == 0 && g.old.PodIP != "" {
		ips = append(ips, g.old.PodIP)
	}
	return ips
}

// sandboxIPs returns the addresses of a sandbox. If one of them can't be parsed, it returns none.
//
// kubelet: pkg/kubelet/kuberuntime/kuberuntime_sandbox.go determinePodSandboxIPs.
func sandboxIPs(sandbox *runtimeapi.PodSandboxStatus) []string {
	var ips []string
	if ip := sandbox.GetNetwork().GetIp(); ip != "" {
		ips = append(ips, ip)
	}
	for _, additional := range sandbox.GetNetwork().GetAdditionalIps() {
		ips = append(ips, additional.GetIp())
	}
	if slices.ContainsFunc(ips, func(ip string) bool { return netutils.ParseIPSloppy(ip) == nil }) {
		return nil
	}
	return ips
}

// sortPodIPs returns at most one address of each IP family, the family of the node first.
//
// kubelet: pkg/kubelet/kubelet_pods.go sortPodIPs.
func sortPodIPs(podIPs, nodeIPs []string) []string {
	families := []func(net.IP) bool{netutils.IsIPv4, netutils.IsIPv6}
	if len(nodeIPs) > 0 && netutils.IsIPv6String(nodeIPs[0]) {
		slices.Reverse(families)
	}
	var sorted []string
	for _, isFamily := range families {
		for _, podIP := range podIPs {
			if ip := netutils.ParseIPSloppy(podIP); isFamily(ip) {
				sorted = append(sorted, ip.String())
				break
			}
		}
	}
	return sorted
}

func setPodIPs(status *v1.PodStatus, ips []string) {
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		status.PodIP = ips[0]
	}
}

// setHostIPs sets the addresses of the node, at most two.
func setHostIPs(status *v1.PodStatus, nodeIPs []string) {
	if len(nodeIPs) == 0 {
		return
	}
	status.HostIP = nodeIPs[0]
	status.HostIPs = []v1.HostIP{{IP: nodeIPs[0]}}
	if len(nodeIPs) == 2 {
		status.HostIPs = append(status.HostIPs, v1.HostIP{IP: nodeIPs[1]})
	}
}

// setHostNetworkPodIPs gives a pod in the host network the addresses of the node. If the pod already has an address, it keeps
// it, and gets only an address of the other IP family.
func setHostNetworkPodIPs(status *v1.PodStatus, nodeIPs []string) {
	if len(nodeIPs) == 0 {
		return
	}
	if status.PodIP == "" {
		setPodIPs(status, nodeIPs[:1])
	}
	if len(nodeIPs) == 2 && len(status.PodIPs) == 1 &&
		netutils.IPFamilyOfString(status.PodIPs[0].IP) != netutils.IPFamilyOfString(nodeIPs[1]) {
		status.PodIPs = append(status.PodIPs, v1.PodIP{IP: nodeIPs[1]})
	}
}
