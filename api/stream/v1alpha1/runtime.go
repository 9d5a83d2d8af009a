package v1alpha1

import "time"

// Event is an event of the container runtime.
type Event struct {
	// Type is ContainerStarted, ContainerDied, ContainerRemoved, ContainerChanged (the
	// container was created, or its state is unknown) or PodSync.
	Type   string `json:"type"`
	PodUID string `json:"podUID"`
	// ContainerID is the ID of the container, or of the sandbox if Container is empty.
	ContainerID string `json:"containerID,omitempty"`
	Container   string `json:"container,omitempty"`
	// ExitCode is set for ContainerDied. It is not set for a sandbox, or if the container
	// was removed before its exit code could be read.
	ExitCode *int32 `json:"exitCode,omitempty"`
}

// RuntimeStatus is the status of the container runtime.
type RuntimeStatus struct {
	// Endpoint is the CRI endpoint of the runtime.
	Endpoint string `json:"endpoint"`
	// Events is true while the events of the runtime announce its changes. If false, only the
	// lists show them, one each relist period, and EventsError gives the reason.
	Events      bool   `json:"events"`
	EventsError string `json:"eventsError,omitempty"`
	Healthy     bool   `json:"healthy"`
	// LastRelist is the time at which the last successful list was requested.
	LastRelist *time.Time `json:"lastRelist,omitempty"`
	// LastError is the error of the last request to the runtime; empty if it succeeded.
	LastError string `json:"lastError,omitempty"`
	// Relists counts the lists, RelistErrors the failed ones. RelistP50Seconds and
	// RelistP99Seconds are percentiles of the duration of the most recent lists.
	Relists          int64   `json:"relists"`
	RelistErrors     int64   `json:"relistErrors"`
	RelistP50Seconds float64 `json:"relistP50Seconds"`
	RelistP99Seconds float64 `json:"relistP99Seconds"`
	// Received counts the events that the runtime sent. Fallbacks counts how often Events became
	// false: the event stream broke, a list showed a change that no event announced, or events were
	// dropped because too many were waiting. Emitted counts the events that the PLEG emitted, by
	// type.
	Received  int64            `json:"received"`
	Fallbacks int64            `json:"fallbacks"`
	Emitted   map[string]int64 `json:"emitted"`
	// Pods and Containers count the pods and containers of the runtime.
	Pods       int `json:"pods"`
	Containers int `json:"containers"`
	// Orphans counts the pods of the runtime that are in no source. OrphansWaiting counts those that
	// are in no source yet, because a source that can have them has not delivered its first set.
	Orphans        int `json:"orphans"`
	OrphansWaiting int `json:"orphansWaiting"`
	// Uninspected counts the pods whose sandboxes or containers the runtime does not describe,
	// although it lists them, and UninspectedSince is when that began. Their status is of before.
	Uninspected      int        `json:"uninspected"`
	UninspectedSince *time.Time `json:"uninspectedSince,omitempty"`
}

// RuntimePods is the object of /v1alpha1/runtime: the pods of the runtime, ordered by UID.
type RuntimePods struct {
	Pods []RuntimePod `json:"pods"`
}

// RuntimePod is a pod of the runtime.
type RuntimePod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is the kind of the source from which the pod was started: file, http or api, as its
	// sandbox says; empty if it does not.
	Source string `json:"source,omitempty"`
	// Ready counts the running containers. Restarts counts the containers that replaced
	// another container of the same name.
	Ready    int `json:"ready"`
	Restarts int `json:"restarts"`
	// UninspectedSince is since when the runtime does not describe the pod: its status is of before.
	UninspectedSince *time.Time `json:"uninspectedSince,omitempty"`
	// CreatedAt is the creation time of the newest sandbox.
	CreatedAt *time.Time `json:"createdAt,omitempty"`
	// Containers has the newest container of each name.
	Containers []RuntimeContainer `json:"containers"`
}

// RuntimeContainer is a container of the runtime.
type RuntimeContainer struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	// ExitCode is the exit code of an exited container, if it is known.
	ExitCode *int32 `json:"exitCode,omitempty"`
	Restarts int    `json:"restarts"`
}
