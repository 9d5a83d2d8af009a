package manifest

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corev1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
)

// defaultPodResources sets the resources of the pod that follow from the resources of its containers.
// Kubelets 1.34 to 1.36 do so. Before 1.34, the feature was off. Since 1.37, only the apiserver does
// so.
//
// kubelet: pkg/apis/core/v1/defaults.go SetDefaults_Pod.
func (m Minor) defaultPodResources(pod *api.Pod) error {
	own := pod.Spec.Resources
	if m < 34 || m > 36 || own == nil || len(own.Limits) == 0 && len(own.Requests) == 0 {
		return nil
	}
	var external v1.Pod // shares all but the structs
	if err := corev1.Convert_core_Pod_To_v1_Pod(pod, &external, nil); err != nil {
		return err
	}
	defaultHugePages(&external)
	defaultRequests(&external)
	return corev1.Convert_v1_Pod_To_core_Pod(&external, pod, nil)
}

// defaultHugePages adds the huge pages of the containers to the limits of the pod.
//
// kubelet: pkg/apis/core/v1/defaults.go defaultHugePagePodLimits.
func defaultHugePages(pod *v1.Pod) {
	own := pod.Spec.Resources
	for name, limit := range resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}) {
		_, requested := own.Requests[name]
		_, limited := own.Limits[name]
		if requested || limited || !resourcehelper.IsSupportedPodLevelResource(name) || !corev1helper.IsHugePageResourceName(name) {
			continue
		}
		if own.Limits == nil {
			own.Limits = v1.ResourceList{}
		}
		own.Limits[name] = limit.DeepCopy()
	}
}

// defaultRequests sets the requests of a pod that has limits: the requests of the containers, otherwise the limits.
//
// kubelet: pkg/apis/core/v1/defaults.go defaultPodRequests.
func defaultRequests(pod *v1.Pod) {
	own := pod.Spec.Resources
	if len(own.Limits) == 0 {
		return
	}
	requests := own.Requests
	if requests == nil {
		requests = v1.ResourceList{}
	}
	for name, request := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if _, has := requests[name]; !has && resourcehelper.IsSupportedPodLevelResource(name) && corev1helper.IsOvercommitAllowed(name) {
			requests[name] = request.DeepCopy()
		}
	}
	for name, limit := range own.Limits {
		if _, has := requests[name]; !has && resourcehelper.IsSupportedPodLevelResource(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	if len(requests) > 0 {
		own.Requests = requests
	}
}
