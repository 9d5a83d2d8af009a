package v1alpha1

import (
	"iter"
	"time"
)

// ContainerResources are the resources that the kubelet assigned to a container for its exclusive use, or for a
// share of it, as the kubelet says.
type ContainerResources struct {
	// Container is the name of the container. It is empty for what the kubelet assigned to the pod as a
	// whole.
	Container string `json:"container,omitempty"`
	// Devices are those of device plugins.
	Devices []Devices `json:"devices,omitempty"`
	// CPUs are the numbers of exclusive CPUs.
	CPUs []int64 `json:"cpus,omitempty"`
	// Memory are the blocks of memory and of huge pages.
	Memory []MemoryBlock `json:"memory,omitempty"`
	// DynamicResources are the claims of the container with their devices.
	DynamicResources []ClaimedDevices `json:"dynamicResources,omitempty"`
}

// Named returns the resource and the name of each device of a container. For a device of a claim, these are its driver, and its pool
// and its name in it.
func (r *ContainerResources) Named() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, d := range r.Devices {
			for _, id := range d.IDs {
				if !yield(d.Resource, id) {
					return
				}
			}
		}
		for _, claim := range r.DynamicResources {
			for _, d := range claim.Devices {
				if !yield(d.Driver, d.Pool+"/"+d.Device) {
					return
				}
			}
		}
	}
}

// Devices are devices of one resource.
type Devices struct {
	// Resource is the name of the resource, such as nvidia.com/gpu.
	Resource string `json:"resource"`
	// IDs are the IDs of the devices, as their plugin gives them.
	IDs []string `json:"ids"`
	// NUMA are the NUMA nodes of the devices, if the plugin gives them.
	NUMA []int64 `json:"numa,omitempty"`
}

// MemoryBlock is a block of memory or of huge pages.
type MemoryBlock struct {
	// Type is memory, or that of the huge pages, such as hugepages-1Gi.
	Type string `json:"type"`
	// Size is in bytes.
	Size uint64  `json:"size"`
	NUMA []int64 `json:"numa,omitempty"`
}

// ClaimedDevices are the devices of a ResourceClaim. The claim is in the namespace of the pod.
type ClaimedDevices struct {
	Claim   string          `json:"claim"`
	Devices []ClaimedDevice `json:"devices,omitempty"`
}

// ClaimedDevice is a device of a claim. Driver, Pool and Device identify it in its ResourceSlice.
type ClaimedDevice struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool,omitempty"`
	Device string `json:"device,omitempty"`
	// ShareID is set for a share of a device.
	ShareID string `json:"shareID,omitempty"`
	// CDI are the names of its CDI devices.
	CDI []string `json:"cdi,omitempty"`
}

// DevicesStatus is what the daemon knows about the devices of containers. A client that does not see everything
// gets none of the fields but Socket and LastList.
type DevicesStatus struct {
	// Socket is that of the kubelet's PodResources API.
	Socket string `json:"socket"`
	// LastList is when the kubelet was last asked for the list that the daemon has; not set before the first one.
	LastList *time.Time `json:"lastList,omitempty"`
	// Pods is the number of pods with resources.
	Pods int `json:"pods"`
	// LastError is why the last list failed; empty if it did not. What the kubelet said before stays known.
	LastError string `json:"lastError,omitempty"`
}
