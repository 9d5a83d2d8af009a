package v1alpha1

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Lookup is the object of /v1alpha1/lookup: the pods that a query found.
type Lookup struct {
	// Instance and Revision are those of the stream: the answer has every change up to the
	// revision.
	Instance string `json:"instance"`
	Revision int64  `json:"revision"`
	// Host is set if the query selects a namespace of the host. Then the answer has no
	// pods.
	Host *LookupHost `json:"host,omitempty"`
	// Pods has one pod, or several for an IP: first the pods that run, then those that
	// completed or ended. Several pods can share a namespace.
	Pods []LookupPod `json:"pods"`
	// Namespaces are the namespaces of the pods, by name, and Node is the node, if they are requested.
	Namespaces map[string]*Metadata `json:"namespaces,omitempty"`
	Node       *Metadata            `json:"node,omitempty"`
}

// LookupHost is a namespace of the host.
type LookupHost struct {
	// Namespace is the kind of the namespace: netns, mntns, pidns or cgroupns.
	Namespace string `json:"namespace"`
	// Pods is the number of the pods that have a container in it.
	Pods int `json:"pods"`
}

// LookupPod is a pod of a Lookup.
type LookupPod struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Source is the source of the pod. It is empty if the pod is only in the container
	// runtime.
	Source string `json:"source,omitempty"`
	// Revision is the revision of this version of the pod.
	Revision int64 `json:"revision,omitempty"`
	// Owners are the owners of the pod that are known, from its controller to the top, such as its
	// ReplicaSet and its Deployment. Those of a static pod are its manifest file and the node. It is set if the daemon finds owners.
	Owners []Owner `json:"owners,omitempty"`
	// Resources are what the kubelet assigned to the containers of the pod, as far as it is known. They
	// are set if the kubelet serves its PodResources API.
	Resources []ContainerResources `json:"resources,omitempty"`
	// Phase, PodIPs and HostNetwork are those of the pod's status and spec.
	Phase       string   `json:"phase,omitempty"`
	PodIPs      []string `json:"podIPs,omitempty"`
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	// Secondary is true if the IP of the query is none of the pod's status, but one that
	// the annotation k8s.v1.cni.cncf.io/network-status has, for example from Multus.
	Secondary bool `json:"secondary,omitempty"`
	// StatusBy says by whom the status of the pod is, if the query is for a UID: kubelet, kubeletBefore (the kubelet is
	// away, and its last status stands), mirrorPod, runtime (computed from the state of the containers), or source (the
	// pod came with it).
	StatusBy string `json:"statusBy,omitempty"`
	// Container is the container or sandbox that the query selects. It is not set if the
	// query selects a pod.
	Container *LookupContainer `json:"container,omitempty"`
	// Ended is the time at which the daemon observed that the pod was removed from its source. For a
	// pod that was in no source, it is the end of its last container, as for a container.
	Ended *time.Time `json:"ended,omitempty"`
	// Pod is the whole pod, if it is requested and a source has it. Of a pod that ended, the log in the
	// state directory has it. PodMissing says why it is missing.
	Pod        *v1.Pod `json:"pod,omitempty"`
	PodMissing string  `json:"podMissing,omitempty"`
}

// LookupContainer is a container or sandbox of the container runtime.
type LookupContainer struct {
	// ID is the ID of the container. It is empty if only a log is known of the container.
	ID string `json:"id"`
	// Name is the name of the container. It is empty for a sandbox, and if only its cgroup
	// is known of the container.
	Name    string `json:"name,omitempty"`
	Sandbox bool   `json:"sandbox,omitempty"`
	// State is created, running, exited or unknown. It is empty if the runtime does not
	// have the container yet.
	State string `json:"state,omitempty"`
	// ExitCode is the exit code of an exited container, if it is known.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Restarts is the number of earlier containers with the same name.
	Restarts int `json:"restarts,omitempty"`
	// Started is when the runtime started the container, or created it if its start is not known.
	Started *time.Time `json:"started,omitempty"`
	// Ended is the time at which a container that the runtime removed had ended, as the runtime
	// says. If the runtime does not say so, it is when the daemon observed that it was removed.
	Ended *time.Time `json:"ended,omitempty"`
	// SandboxID is the ID of the sandbox of the container, or of the sandbox itself.
	SandboxID string `json:"sandboxID,omitempty"`
	// PID is the first process of a running container, in the PID namespace of the daemon.
	// StartTime is its start time: field 22 of /proc/PID/stat. What follows is of this
	// process, at most a second ago. What is not known is 0 or empty.
	PID       int    `json:"pid,omitempty"`
	StartTime uint64 `json:"startTime,omitempty"`
	// Cgroup is the path of the cgroup of the container. CgroupID is its ID with cgroup v2.
	Cgroup   string `json:"cgroup,omitempty"`
	CgroupID uint64 `json:"cgroupID,omitempty"`
	// NetNS, MntNS, PidNS and CgroupNS are the inodes of its namespaces.
	NetNS    uint64 `json:"netns,omitempty"`
	MntNS    uint64 `json:"mntns,omitempty"`
	PidNS    uint64 `json:"pidns,omitempty"`
	CgroupNS uint64 `json:"cgroupns,omitempty"`
}
