package v1alpha1

import "time"

// Health says whether a pod runs as it should.
type Health string

// The health of a pod or a manifest.
const (
	// Healthy means that the containers of the pod run, or completed.
	Healthy Health = "Healthy"
	// Progressing means that the pod does not run yet, or no longer, and nothing is wrong.
	Progressing Health = "Progressing"
	// Unhealthy means that something is wrong.
	Unhealthy Health = "Unhealthy"
	// Unknown means that the daemon has the pod, and does not know whether it runs.
	Unknown Health = "Unknown"
)

// Story is what a daemon knows of one pod or one manifest. The command "podconfigctl status"
// puts it together from the answers of the daemon.
type Story struct {
	// Path is the path of the manifest. It is empty if no manifest file is known.
	Path string `json:"path,omitempty"`
	// Line is the line of the first fault of the manifest; 0 if it is not known.
	Line int `json:"line,omitempty"`
	// Namespace and Name identify the pod. They are empty for a manifest without a pod.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	NodeName  string `json:"nodeName"`
	Health    Health `json:"health"`
	// Summary is the most important fact, and Fix what to do about it, for people.
	Summary string   `json:"summary"`
	Fix     []string `json:"fix,omitempty"`
	// Source is the source of the pod or manifest, without its manifests. It is nil if no
	// source has the pod.
	Source *SourceStatus `json:"source,omitempty"`
	// Manifest is the verdict on the manifest. It is nil for a pod of the apiserver.
	Manifest *Manifest `json:"manifest,omitempty"`
	// Pod is the pod. It is nil if no source has it.
	Pod *StoryPod `json:"pod,omitempty"`
	// MirrorProblem is why the static pod has no mirror pod, or not its newest one, though the
	// daemon creates mirror pods.
	MirrorProblem string `json:"mirrorProblem,omitempty"`
	// OtherManifests are the other manifests, and OtherPods the other pods, that have the same
	// namespace and name.
	OtherManifests []StoryManifest `json:"otherManifests,omitempty"`
	OtherPods      []StoryPod      `json:"otherPods,omitempty"`
	// Changes are the last changes of the pod, oldest first.
	Changes []HistoryRecord `json:"changes,omitempty"`
	// Unanswered lists what the daemon did not answer, and why.
	Unanswered []string `json:"unanswered,omitempty"`
}

// StoryManifest is a manifest of a source.
type StoryManifest struct {
	Source string `json:"source"`
	Manifest
}

// StoryPod is a pod of a source.
type StoryPod struct {
	Source string `json:"source"`
	UID    string `json:"uid"`
	// Mirror is true for a mirror pod, which a kubelet creates in the apiserver for its static
	// pod.
	Mirror bool `json:"mirror,omitempty"`
	// Revision is the revision of this version of the pod; 0 if it is not known.
	Revision int64 `json:"revision,omitempty"`
	// Seen is the time at which the daemon first saw the pod.
	Seen *time.Time `json:"seen,omitempty"`
	// Deleting is the time at which the pod was deleted gracefully.
	Deleting *time.Time `json:"deleting,omitempty"`
	// Phase, Reason and Message are those of the pod's status. Status, Ready and Restarts are
	// as in the table of kubectl.
	Phase    string   `json:"phase,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Message  string   `json:"message,omitempty"`
	Status   string   `json:"status,omitempty"`
	Ready    string   `json:"ready,omitempty"`
	Restarts string   `json:"restarts,omitempty"`
	PodIPs   []string `json:"podIPs,omitempty"`
	// StatusBy says by whom the status is, as in LookupPod.
	StatusBy string `json:"statusBy,omitempty"`
	// Sandbox is the creation time of the newest sandbox in the container runtime; nil if the
	// runtime has none, or is not known.
	Sandbox *time.Time `json:"sandbox,omitempty"`
	// Containers are the containers of the pod's spec, first the init containers.
	Containers []StoryContainer `json:"containers,omitempty"`
}

// StoryContainer is a container of a pod.
type StoryContainer struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	Init  bool   `json:"init,omitempty"`
	// ID is the ID of the newest container in the runtime.
	ID string `json:"id,omitempty"`
	// State is waiting, running or terminated; empty if it is not known.
	State string `json:"state,omitempty"`
	Ready bool   `json:"ready,omitempty"`
	// Reason and Message say why the container waits or terminated.
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty"`
	Restarts int    `json:"restarts"`
	// Since is the time from which the container is in this state.
	Since *time.Time `json:"since,omitempty"`
	// LastExitCode and LastReason are those of the container before this one.
	LastExitCode *int32 `json:"lastExitCode,omitempty"`
	LastReason   string `json:"lastReason,omitempty"`
}
