package podstatus

import (
	"net"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"
)

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
