package v1alpha1

import "time"

// Containers is the object of /v1alpha1/containers: the containers and sandboxes of the container runtime, ordered
// by the UID of their pod and their creation.
type Containers struct {
	// Instance and Revision are those of the stream of containers, which can be watched from there.
	Instance   string         `json:"instance"`
	Revision   int64          `json:"revision"`
	Containers []PodContainer `json:"containers"`
}

// ContainerUpdate is a line of /v1alpha1/containers with watch=true.
type ContainerUpdate struct {
	// Instance identifies the revisions. It is not that of the stream of pods. A new one begins when podconfigd starts, when the
	// access rules change, and some minutes after the last subscriber has left.
	Instance string `json:"instance"`
	// Revision is where the stream can be resumed. The containers before the first BOOKMARK have none.
	Revision int64 `json:"revision,omitempty"`
	// Time is when the change was recorded. The containers before the first BOOKMARK have none.
	Time *time.Time `json:"time,omitempty"`
	// Op is ADD, UPDATE, REMOVE or BOOKMARK. REMOVE means that the runtime has removed the container, or that it is no longer
	// selected.
	Op Op `json:"op"`
	// Container is the container, in a REMOVE as it was at last. A BOOKMARK has none.
	Container *PodContainer `json:"container,omitempty"`
	// InitialSyncComplete is set in the BOOKMARK after the containers that there were at the start of the stream.
	InitialSyncComplete bool `json:"initialSyncComplete,omitempty"`
	// Reset means that the subscriber has to forget what it holds, and the revision to resume from: the present containers follow. Message says why.
	Reset   bool   `json:"reset,omitempty"`
	Message string `json:"message,omitempty"`
}

// PodContainer is a container or sandbox with its pod. Its handles, which are the process, the cgroup and the namespaces, come
// with the start of its process or in an UPDATE after it, and stay when the process has ended.
type PodContainer struct {
	LookupContainer

	Pod ContainerPod `json:"pod"`
	// Resources are what the kubelet assigned to the container, as far as it is known.
	Resources *ContainerResources `json:"resources,omitempty"`
}

// ContainerPod is the pod of a container.
type ContainerPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Source is the source of the pod. It is empty as long as no source has the pod.
	Source string `json:"source,omitempty"`
	// Labels and Owners are set if they are requested. Owners are as in LookupPod.
	Labels map[string]string `json:"labels,omitempty"`
	Owners []Owner           `json:"owners,omitempty"`
}
