package podstatus

import v1 "k8s.io/api/core/v1"

// Generate returns the status of a pod. It changes nothing of its input.
//
// kubelet: pkg/kubelet/kubelet_pods.go generateAPIPodStatus.
func Generate(in Input) *v1.PodStatus {
	status := in.Pod.Status.DeepCopy()
	return status
}
