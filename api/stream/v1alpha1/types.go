// Package v1alpha1 has the types of the JSON objects on the socket: the lines of
// /v1alpha1/updates, and the objects of /v1alpha1/status, /v1alpha1/history and
// /v1alpha1/runtime.
package v1alpha1

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// ContentType is the content type of the stream of updates: one JSON object per line.
const ContentType = "application/x-ndjson"

// RestoredHeader is the header of answers with pods: the names of the sources, separated by
// commas, whose pods are from before a restart. It is missing if there are
// none. Over gRPC, it is metadata of the Pods API.
const RestoredHeader = "Podconfigd-Restored"

// PodsAPIHeader is metadata of each answer of podconfigd's Pods API. The kubelet's has none, so a client can
// distinguish them.
const PodsAPIHeader = "Podconfigd-Pods-Api"

// Update is one line of the stream.
type Update struct {
	// Instance identifies the state of the daemon. A revision is valid only for its
	// instance.
	Instance string `json:"instance"`
	// Revision grows with each update. To resume the stream after this line, pass Instance
	// and Revision. A line without a revision can't be resumed from; keep the revision of an
	// earlier line. Lines without a revision are the pods before the first BOOKMARK, a reset,
	// and all lines of a split update except its last.
	Revision int64 `json:"revision,omitempty"`
	// Time is the time at which the daemon recorded the update.
	Time *time.Time `json:"time,omitempty"`
	// Op is the operation.
	Op Op `json:"op"`
	// Source is the source of the pods. In a SET, it is the source that changed.
	Source string `json:"source,omitempty"`
	// InitialSyncComplete is true in the BOOKMARK after the current pods.
	InitialSyncComplete bool `json:"initialSyncComplete,omitempty"`
	// Reset is true if the subscriber must forget every pod, and the revision to resume from. The current pods follow.
	// Message gives the reason.
	Reset bool `json:"reset,omitempty"`
	// Restored is true if the pods, or in a SET some of them, are from before a
	// restart, because their source has not delivered its first set yet.
	Restored bool `json:"restored,omitempty"`
	// Continues is true if more lines of the same update follow.
	Continues bool   `json:"continues,omitempty"`
	Message   string `json:"message,omitempty"`
	// Ready is set in a BOOKMARK. It is true if every source has been seen.
	Ready *bool `json:"ready,omitempty"`
	// Sources is set in a BOOKMARK. It has the state of each source.
	Sources map[string]SourceState `json:"sources,omitempty"`
	// Event is set in a PLEG.
	Event *Event `json:"event,omitempty"`
	// Pods are complete v1.Pod objects with apiVersion and kind. In a PLEG or HOUSEKEEPING,
	// a pod that is in no source has only namespace, name and UID.
	Pods []*v1.Pod `json:"pods,omitempty"`
	// Owners are the owners of the pods, by the UID of the pod, if the subscriber requests them: from the controller of the pod
	// to the top. What is not known yet comes later, as a RECONCILE. A pod without a controller is missing.
	Owners map[string][]Owner `json:"owners,omitempty"`
	// Namespaces are namespaces of the pods, by name, and Node is the node, in a METADATA. A namespace is removed when the
	// subscriber sees no pod in it.
	Namespaces map[string]*Metadata `json:"namespaces,omitempty"`
	Node       *Metadata            `json:"node,omitempty"`
}

// Metadata are the labels and annotations of a namespace or the node.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Removed is true if there is no such namespace any more.
	Removed bool `json:"removed,omitempty"`
}

// SourceState is the state of a source in a BOOKMARK.
type SourceState struct {
	// Seen is true if the source has delivered its first set.
	Seen bool `json:"seen"`
	// Restored is true if the pods are from before a restart, because the
	// source has not delivered its first set yet.
	Restored bool `json:"restored,omitempty"`
}

// Status is the object of /v1alpha1/status.
type Status struct {
	Instance string `json:"instance"`
	// Revision is the revision of the newest update. A stream can resume after Compacted
	// and every later revision.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Ready is true if /readyz succeeds: every source has been seen, and updates are stored if there
	// is a state directory.
	Ready bool `json:"ready"`
	// NodeName is the name of the node.
	NodeName  string         `json:"nodeName"`
	StartTime time.Time      `json:"startTime"`
	Pods      int            `json:"pods"`
	Sources   []SourceStatus `json:"sources"`
	// Runtime is set if the daemon has a container runtime.
	Runtime *RuntimeStatus `json:"runtime,omitempty"`
	// State is set if the journal is stored in a directory.
	State *StateStatus `json:"state,omitempty"`
	// MirrorPods is set if the daemon creates mirror pods.
	MirrorPods *MirrorStatus `json:"mirrorPods,omitempty"`
	// Owners is set if the daemon finds the owners of pods.
	Owners *OwnersStatus `json:"owners,omitempty"`
	// Devices is set if the kubelet serves its PodResources API, or the path of its socket is configured.
	Devices *DevicesStatus `json:"devices,omitempty"`
	// Kubelet is the kubelet whose rules are followed; not set by a daemon without sources of static pods.
	Kubelet *KubeletStatus `json:"kubelet,omitempty"`
	// Problems is what is wrong, for people. If it is empty, the daemon is healthy.
	Problems []string `json:"problems,omitempty"`
	// Subscribers has the subscribers of the stream, oldest first.
	Subscribers []Subscriber `json:"subscribers"`
}

// KubeletStatus is which kubelet's rules for static pods are followed, and how it was found.
type KubeletStatus struct {
	// Version is the version of the kubelet, such as 1.34, or v1.34.4 if more is known.
	Version string `json:"version"`
	// Source is how the version was found: flag, sandboxes, podsAPI, mirrorPods, node, state, or base if nothing
	// shows it.
	Source string `json:"source"`
	// Rules is the minor version whose rules are used: that of the kubelet, or the nearest known one.
	Rules string `json:"rules"`
	// Present is true if a kubelet runs on the node, as far as is known.
	Present bool `json:"present"`
	// OtherUIDs is the number of static pods that run under another UID than podconfigd gives them.
	OtherUIDs int `json:"otherUIDs,omitempty"`
	// Detail is what is odd, and what to do about it.
	Detail string `json:"detail,omitempty"`
	// PodsAPI is the connection to the kubelet's Pods API; not set if there is no kubelet that has one.
	PodsAPI *KubeletPodsAPI `json:"podsAPI,omitempty"`
}

// KubeletPodsAPI is the connection to the Pods API of the kubelet, which gives the status of pods.
type KubeletPodsAPI struct {
	// Socket is the path of the kubelet's socket.
	Socket string `json:"socket"`
	// Connected is true while the kubelet gives the status of pods; LastError then says why some may be missing or late.
	// Otherwise the last status stands since Since, and LastError gives the reason.
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since,omitempty"`
	LastError string     `json:"lastError,omitempty"`
	// Pods is the number of pods that the kubelet has, and Statuses how many of them have a status from it.
	Pods     int `json:"pods"`
	Statuses int `json:"statuses"`
	// UnknownToKubelet are pods of the sources that the kubelet does not have, and UnknownToSources are pods of the
	// kubelet that no source has: NAMESPACE/NAME, at most 100 of each.
	UnknownToKubelet []string `json:"unknownToKubelet,omitempty"`
	UnknownToSources []string `json:"unknownToSources,omitempty"`
}

// StateStatus is the state of the journal's log in the state directory.
type StateStatus struct {
	Dir string `json:"dir"`
	// Stored is true if each update is stored before it is sent. Otherwise updates are not
	// stored since FailedSince. LastError gives the reason.
	Stored      bool       `json:"stored"`
	FailedSince *time.Time `json:"failedSince,omitempty"`
	LastError   string     `json:"lastError,omitempty"`
	// Segments and Bytes are the number and size of the log's files.
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"`
}

// ManifestFault is where a fault is: the lines around it, as podconfigd read them.
type ManifestFault struct {
	// Line is the line of the fault. Lines begin at FirstLine: at most 7, cut after 200 bytes.
	Line      int      `json:"line"`
	FirstLine int      `json:"firstLine"`
	Lines     []string `json:"lines"`
}

// SourceStatus is the state of one source.
type SourceStatus struct {
	Name string `json:"name"`
	Seen bool   `json:"seen"`
	// Restored is true if the pods are from before a restart, because the
	// source has not delivered its first set yet.
	Restored bool `json:"restored,omitempty"`
	// Degraded is true while the source can't be read. The daemon keeps the last set of the
	// source since DegradedSince. LastError gives the reason.
	Degraded      bool       `json:"degraded"`
	DegradedSince *time.Time `json:"degradedSince,omitempty"`
	LastError     string     `json:"lastError,omitempty"`
	// Held is set while the newest set of the source is not merged, because it would remove
	// too many pods. The source is degraded.
	Held *HeldSet `json:"held,omitempty"`
	// LastChange is the time at which the source last delivered a set.
	LastChange *time.Time `json:"lastChange,omitempty"`
	Pods       int        `json:"pods"`
	// Fix is what to do about a source that is degraded, for people.
	Fix []string `json:"fix,omitempty"`
	// File is set for a file source, HTTP for an HTTP source, API for the apiserver.
	File *FileStatus `json:"file,omitempty"`
	HTTP *HTTPStatus `json:"http,omitempty"`
	API  *APIStatus  `json:"api,omitempty"`
}

// HeldSet is a set that is not merged because of --removal-brake.
type HeldSet struct {
	// Removes is how many pods the set would remove, Pods how many the source has.
	Removes int `json:"removes"`
	Pods    int `json:"pods"`
	// Since is the time from which sets of the source are held.
	Since time.Time `json:"since"`
	// Until is the time at which the set is merged, because it is within the limit; nil if
	// it is beyond the limit.
	Until *time.Time `json:"until,omitempty"`
}

// FileStatus is the part of the status that is specific to a file source.
type FileStatus struct {
	// Path is the manifest path.
	Path string `json:"path"`
	// Absent is true if the path has not existed since the start.
	Absent bool `json:"absent,omitempty"`
	// Watch is "inotify", or "polling" if inotify is not available. WatchError gives the
	// reason.
	Watch      string `json:"watch"`
	WatchError string `json:"watchError,omitempty"`
	// Overflows counts how often inotify lost events. The source relists the path each time.
	Overflows int `json:"overflows,omitempty"`
	// Settling counts the files whose change is not applied yet: the file is being written,
	// or is missing for a moment.
	Settling int `json:"settling,omitempty"`
	// Manifests has the verdicts on the manifest files, ordered by path: at most 1000 with
	// the state Accepted and 200 of each other state. ManifestsOmitted counts the others by
	// state.
	Manifests        []Manifest            `json:"manifests"`
	ManifestsOmitted map[ManifestState]int `json:"manifestsOmitted,omitempty"`
}

// HTTPStatus is the part of the status that is specific to an HTTP source.
type HTTPStatus struct {
	// URL is the manifest URL without user and query.
	URL string `json:"url"`
	// LastSuccess is the time of the last usable response.
	LastSuccess *time.Time `json:"lastSuccess,omitempty"`
	// Manifests has the verdicts on the pods in the response: at most 1000 with the state
	// Accepted and 200 of each other state. ManifestsOmitted counts the others by state.
	Manifests        []Manifest            `json:"manifests"`
	ManifestsOmitted map[ManifestState]int `json:"manifestsOmitted,omitempty"`
}

// APIStatus is the part of the status that is specific to an apiserver source.
type APIStatus struct {
	// Server is the URL of the apiserver.
	Server string `json:"server"`
	// NodeKnown is true if the apiserver has the node. The source delivers no pods before.
	NodeKnown bool `json:"nodeKnown"`
	// Connected is true while a watch is open.
	Connected bool `json:"connected"`
	// LastList is the time of the last full list. LastEvent is the time of the last event
	// of the watch; bookmarks count as events.
	LastList  *time.Time `json:"lastList,omitempty"`
	LastEvent *time.Time `json:"lastEvent,omitempty"`
	// Relists counts the lists after the first, WatchRestarts the watches after the first.
	// Each watch begins with a list.
	Relists       int `json:"relists"`
	WatchRestarts int `json:"watchRestarts"`
}

// ManifestState is the outcome for a manifest.
type ManifestState string

// The states of a manifest.
const (
	// ManifestAccepted means that the pod of the manifest is in the set of the source.
	ManifestAccepted ManifestState = "Accepted"
	// ManifestRejected means that the manifest can't be used and gave no pod before.
	ManifestRejected ManifestState = "Rejected"
	// ManifestHeld means that the manifest can't be used now. The set has the pod of its
	// last usable version.
	ManifestHeld ManifestState = "Held"
	// ManifestShadowed means that the manifest is valid, but another manifest already has
	// the name or UID of its pod.
	ManifestShadowed ManifestState = "Shadowed"
	// ManifestIgnored means that there is no manifest: the entry is a directory or a special file, or the file is not meant
	// as a pod. It is no fault.
	ManifestIgnored ManifestState = "Ignored"
)

// ManifestStates returns all states.
func ManifestStates() []ManifestState {
	return []ManifestState{ManifestAccepted, ManifestRejected, ManifestHeld, ManifestShadowed, ManifestIgnored}
}

// Manifest is the verdict on one manifest.
type Manifest struct {
	// Path is the path of the file. For an item of a list without a name, it is the position
	// in the list.
	Path string `json:"path,omitempty"`
	// State is the outcome.
	State ManifestState `json:"state"`
	// Namespace, Name and UID identify the pod of the manifest, or of its last usable
	// version. A rejected manifest has the name of the pod that it describes, if it can be
	// read, and no UID.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Reason and Message say why the manifest was not accepted. Reason is one word in
	// CamelCase, Message is readable text.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Warnings are faults that the kubelet ignores without a message.
	Warnings []string `json:"warnings,omitempty"`
	// Fault is where the first fault is in the file, or in the answer of the URL, if its line is known.
	Fault *ManifestFault `json:"fault,omitempty"`
	// Fix is what to do about a manifest that is not accepted, for people.
	Fix []string `json:"fix,omitempty"`
}

// Subscriber is one open stream.
type Subscriber struct {
	ID int64 `json:"id"`
	// PID and UID are the process ID and user ID of the client. They are only set on a unix socket.
	PID int32   `json:"pid,omitempty"`
	UID *uint32 `json:"uid,omitempty"`
	// Address is the address of the client, with its port. It is only set over TCP. User is the
	// authenticated user. It is only set on an https address.
	Address   string    `json:"address,omitempty"`
	User      string    `json:"user,omitempty"`
	UserAgent string    `json:"userAgent,omitempty"`
	Mode      Mode      `json:"mode"`
	Since     time.Time `json:"since"`
	// Revision is the newest revision that was sent to the subscriber. Lag is the number of
	// later revisions.
	Revision int64 `json:"revision"`
	Lag      int64 `json:"lag"`
	// Resets counts how often the subscriber fell behind the journal and got a reset.
	Resets int `json:"resets,omitempty"`
}
