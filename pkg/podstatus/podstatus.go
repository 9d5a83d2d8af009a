package podstatus

import (
	v1 "k8s.io/api/core/v1"
)

// Generate returns the status of a pod. It changes nothing of its input, and the status
// shares nothing with it.
//
// Without a record, the status before stays if it has containers. Otherwise the status is
// that of the pod, with the addresses of the node if the pod uses the host network.
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

// generator has what a status is computed from, in the form that the rules need.
type generator struct {
	pod     *v1.Pod
	runtime runtimeStatus
	// old is a copy of the status before.
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

// generateAPIPodStatus completes a status that has the containers.
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
	// The kubelet never writes these, except for the health of volumes, which is not known here.
	// They stay as the apiserver has them.
	apiserver := g.pod.Status.DeepCopy()
	status.ResourceClaimStatuses = apiserver.ResourceClaimStatuses
	status.ExtendedResourceClaimStatus = apiserver.ExtendedResourceClaimStatus
	status.NodeAllocatableResourceClaimStatuses = apiserver.NodeAllocatableResourceClaimStatuses
	status.VolumeHealth = apiserver.VolumeHealth
	return status
}
