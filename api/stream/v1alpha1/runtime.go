package v1alpha1

import "time"

// Event is what happened in the container runtime.
type Event struct {
	// Type is ContainerStarted, ContainerDied, ContainerRemoved, ContainerChanged (it was
	// created, or the runtime does not know its state) or PodSync.
	Type   string `json:"type"`
	PodUID string `json:"podUID"`
	// ContainerID is the container's ID, or the sandbox's, where Container is empty.
	ContainerID string `json:"containerID,omitempty"`
	Container   string `json:"container,omitempty"`
	// ExitCode is there with ContainerDied, unless the container was gone before the
	// runtime could be asked, or is a sandbox.
	ExitCode *int32 `json:"exitCode,omitempty"`
}

// RuntimeStatus is what the daemon knows of the container runtime.
type RuntimeStatus struct {
	// Endpoint is where the runtime is.
	Endpoint string `json:"endpoint"`
	// Events: the runtime tells of events itself; if not, it is listed, and EventsError
	// says why.
	Events      bool   `json:"events"`
	EventsError string `json:"eventsError,omitempty"`
	Healthy     bool   `json:"healthy"`
	// LastRelist is when the last list that came was asked for.
	LastRelist *time.Time `json:"lastRelist,omitempty"`
	// LastError is what the runtime said when it was asked last, if that failed.
	LastError string `json:"lastError,omitempty"`
	// Relists counts the lists, and RelistErrors those that failed; P50 and P99 are how
	// many seconds the last ones took.
	Relists          int64   `json:"relists"`
	RelistErrors     int64   `json:"relistErrors"`
	RelistP50Seconds float64 `json:"relistP50Seconds"`
	RelistP99Seconds float64 `json:"relistP99Seconds"`
	// Received counts the runtime's own events, Fallbacks how often they broke off that
	// had been relied on, and Told the events told, by type.
	Received  int64            `json:"received"`
	Fallbacks int64            `json:"fallbacks"`
	Told      map[string]int64 `json:"told"`
	// Pods and Containers count what the runtime has.
	Pods       int `json:"pods"`
	Containers int `json:"containers"`
}

// RuntimePods is the object of /v1alpha1/runtime: the runtime's pods, by UID.
type RuntimePods struct {
	Pods []RuntimePod `json:"pods"`
}

// RuntimePod is what the runtime has of a pod.
type RuntimePod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready counts the containers that run, Restarts the ones that came after another
	// of their name.
	Ready    int `json:"ready"`
	Restarts int `json:"restarts"`
	// CreatedAt is when the newest sandbox was.
	CreatedAt *time.Time `json:"createdAt,omitempty"`
	// Containers are the newest of each name.
	Containers []RuntimeContainer `json:"containers"`
}

// RuntimeContainer is what the runtime has of a container.
type RuntimeContainer struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	// ExitCode is that of a container that exited, if it is known.
	ExitCode *int32 `json:"exitCode,omitempty"`
	Restarts int    `json:"restarts"`
}
