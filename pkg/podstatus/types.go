package podstatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Record is what the runtime reports about a pod. It is immutable.
//
// kubelet: pkg/kubelet/container/runtime.go PodStatus.
type Record struct {
	// Sandboxes and Containers are all that the runtime has of the pod, in any order.
	Sandboxes  []*runtimeapi.PodSandboxStatus
	Containers []*runtimeapi.ContainerStatus
}

// Node is what is known of the node.
type Node struct {
	// Runtime is the name of the runtime, such as "containerd". It is the prefix of the IDs
	// of containers.
	Runtime string
	// IPs are the addresses of the node: one, or one of each IP family. The first one is the
	// host IP.
	IPs []string
	// Minor is the minor version of the kubelet whose rules count, such as 36; 0 for the newest.
	Minor int
}

// Input is what a status is computed from.
type Input struct {
	Pod *v1.Pod
	// Record is nil if nothing is known from a runtime: there is none, or it has not
	// answered yet.
	Record *Record
	// Previous is the status that Generate returned for the pod before; nil if there is none.
	Previous *v1.PodStatus
	Node     Node
	Now      time.Time
}

// Reading is the record of a pod.
type Reading struct {
	UID types.UID
	// Record has nothing in it if the runtime has no container of the pod.
	Record *Record
	// Runtime is the name of the runtime.
	Runtime string
}
