package podstatus

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Units and limits of the resources in cgroups.
//
// kubelet: pkg/kubelet/cm/helpers_linux.go.
const (
	minShares        = 2
	sharesPerCPU     = 1024
	milliCPUToCPU    = 1000
	minMilliCPULimit = 10
)

// podQOS returns the QoS class of the pod, by the rules of a minor version of the kubelet; 0 for the newest.
//
// kubelet: pkg/apis/core/v1/helper/qos/qos.go GetPodQOS.
func podQOS(pod *v1.Pod, minor int) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	if podResourcesCount(pod, minor) {
		return qosOf(pod.Spec.Resources)
	}
	var all v1.PodQOSClass
	for container := range initAndRegular(&pod.Spec) {
		all = together(all, qosOf(&container.Resources))
	}
	return cmp.Or(all, v1.PodQOSBestEffort)
}

// podResourcesCount reports whether the QoS class is computed from the resources of the pod, not from the resources of its
// containers. Until 1.33 it never is. From 1.34 to 1.36, empty resources of the pod count too.
func podResourcesCount(pod *v1.Pod, minor int) bool {
	switch minor {
	case 34, 35, 36:
		return pod.Spec.Resources != nil
	}
	return (minor == 0 || minor > 36) && resourcehelper.IsPodLevelResourcesSet(pod)
}

// qosOf returns the QoS class of the CPU and the memory: BestEffort if both are missing, Guaranteed if the request equals the
// limit for both, and Burstable otherwise.
func qosOf(resources *v1.ResourceRequirements) (all v1.PodQOSClass) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := resources.Requests[name], resources.Limits[name]
		class := v1.PodQOSGuaranteed
		if request.Cmp(limit) != 0 {
			class = v1.PodQOSBurstable
		} else if request.IsZero() {
			class = v1.PodQOSBestEffort
		}
		all = together(all, class)
	}
	return all
}

// together returns the class of a whole with two parts. before is empty for the first part.
func together(before, class v1.PodQOSClass) v1.PodQOSClass {
	if before == "" || before == class {
		return class
	}
	return v1.PodQOSBurstable
}

// setPodResources sets the resources as the pod declares them. A kubelet reads the resources of a running pod of an apiserver
// from its cgroup.
//
// kubelet: pkg/kubelet/kubelet_pods.go getEffectiveAllocatedResources.
func setPodResources(status *v1.PodStatus, pod *v1.Pod) {
	resources := pod.Spec.Resources.DeepCopy()
	if resources == nil {
		resources = &v1.ResourceRequirements{}
	}
	resources.Requests = nonEmpty(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	resources.Limits = nonEmpty(resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}))
	status.Resources = resources
	status.AllocatedResources = resources.Requests.DeepCopy()
}

func nonEmpty(list v1.ResourceList) v1.ResourceList {
	if len(list) == 0 {
		return nil
	}
	return list.DeepCopy()
}

// containerResources returns the resources of a container: what the pod declares, replaced by what the runtime reports if the
// container runs. The runtime does not report the memory request.
//
// kubelet: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses.
func containerResources(container *v1.Container, status *v1.ContainerStatus, cri *runtimeapi.ContainerStatus, old *v1.ContainerStatus) *v1.ResourceRequirements {
	resources := container.Resources.DeepCopy()
	if status.State.Running == nil {
		return resources
	}
	actual := toContainerResources(cri.GetResources().GetLinux())
	var before v1.ResourceRequirements
	if old != nil && old.State.Running != nil && old.ContainerID == status.ContainerID && old.Resources != nil {
		before = *old.Resources
	}
	if resources.Limits != nil {
		setActual(resources.Limits, before.Limits, v1.ResourceCPU, actual.cpuLimit, minMilliCPULimit)
		setActual(resources.Limits, before.Limits, v1.ResourceMemory, actual.memoryLimit, 0)
	}
	if resources.Requests != nil {
		setActual(resources.Requests, before.Requests, v1.ResourceCPU, actual.cpuRequest, minShares)
	}
	return resources
}

// setActual sets a resource to the reported quantity. It does not if the reported and the declared quantity are both at most the
// floor, which is the least that the runtime can express. Without a report, it sets the quantity of the previous status.
func setActual(list, before v1.ResourceList, name v1.ResourceName, actual *resource.Quantity, floor int64) {
	if actual == nil {
		if quantity, ok := before[name]; ok {
			list[name] = quantity.DeepCopy()
		}
		return
	}
	declared := list[name]
	if actual.MilliValue() > floor || declared.MilliValue() > floor {
		list[name] = *actual
	}
}

// actualResources has the resources that the runtime reports; nil if it does not report them.
type actualResources struct {
	cpuRequest, cpuLimit, memoryLimit *resource.Quantity
}

// kubelet: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go toKubeContainerResources.
func toContainerResources(linux *runtimeapi.LinuxContainerResources) (actual actualResources) {
	if period, quota := linux.GetCpuPeriod(), linux.GetCpuQuota(); period > 0 && quota > 0 {
		if milli := quota * milliCPUToCPU / period; milli > 0 {
			actual.cpuLimit = resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	if shares := linux.GetCpuShares(); shares >= minShares {
		milli := (shares*milliCPUToCPU + sharesPerCPU - 1) / sharesPerCPU
		actual.cpuRequest = resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	if memory := linux.GetMemoryLimitInBytes(); memory > 0 {
		actual.memoryLimit = resource.NewQuantity(memory, resource.BinarySI)
	}
	return actual
}
