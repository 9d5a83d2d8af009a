// Package v1alpha1 holds the JSON objects that the socket speaks: the lines of
// /v1alpha1/updates and the object of /v1alpha1/status.
package v1alpha1

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// ContentType is that of the stream of updates: one JSON object a line.
const ContentType = "application/x-ndjson"

// Update is one line of the stream.
type Update struct {
	// Instance names the daemon's state; a revision means nothing in another one.
	Instance string `json:"instance"`
	// Revision grows with each update. A stream can be resumed after it, with Instance.
	// A line that can't be resumed from has none, and leaves the last one in force: the
	// pods before the first BOOKMARK, a reset, and the lines of an update but its last.
	Revision int64 `json:"revision,omitempty"`
	// Time is when the daemon took the update.
	Time *time.Time `json:"time,omitempty"`
	// Op is ADD, UPDATE, REMOVE, DELETE, RECONCILE, SET, SYNC, PLEG, HOUSEKEEPING or
	// BOOKMARK.
	Op string `json:"op"`
	// Source is the source of the pods; of a SET, the one that changed.
	Source string `json:"source,omitempty"`
	// InitialSyncComplete: the present state has been told.
	InitialSyncComplete bool `json:"initialSyncComplete,omitempty"`
	// Reset: forget every pod; the present state follows. Message says why.
	Reset bool `json:"reset,omitempty"`
	// Restored: the pods are those of the last run; the source has not been seen yet.
	Restored bool `json:"restored,omitempty"`
	// Continues: more lines of the same update follow.
	Continues bool   `json:"continues,omitempty"`
	Message   string `json:"message,omitempty"`
	// Ready, in a BOOKMARK: every source has been seen.
	Ready *bool `json:"ready,omitempty"`
	// Sources, in a BOOKMARK: the state of each source.
	Sources map[string]SourceState `json:"sources,omitempty"`
	// Event, in a PLEG: what happened in the runtime.
	Event *Event `json:"event,omitempty"`
	// Pods are whole, with apiVersion and kind. Those that no source wants have nothing
	// but name and UID, in a PLEG and a HOUSEKEEPING.
	Pods []*v1.Pod `json:"pods,omitempty"`
}

// SourceState is what a BOOKMARK says of a source.
type SourceState struct {
	// Seen: the source has told its first set.
	Seen bool `json:"seen"`
}

// Status is the object of /v1alpha1/status.
type Status struct {
	Instance string `json:"instance"`
	// Revision is that of the newest update, Compacted that of the newest one that
	// can't be resumed from any more.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Ready: every source has been seen.
	Ready bool `json:"ready"`
	// NodeName is the node whose pods these are.
	NodeName  string         `json:"nodeName"`
	StartTime time.Time      `json:"startTime"`
	Pods      int            `json:"pods"`
	Sources   []SourceStatus `json:"sources"`
	// Runtime is there where there is a container runtime.
	Runtime *RuntimeStatus `json:"runtime,omitempty"`
	// Subscribers are those of the stream, the oldest first.
	Subscribers []Subscriber `json:"subscribers"`
}

// SourceStatus is the state of one source.
type SourceStatus struct {
	Name string `json:"name"`
	Seen bool   `json:"seen"`
	// Degraded: it can't be read; its last set is held since then, and LastError says
	// why.
	Degraded      bool       `json:"degraded"`
	DegradedSince *time.Time `json:"degradedSince,omitempty"`
	LastError     string     `json:"lastError,omitempty"`
	// LastChange is when it last told a set.
	LastChange *time.Time `json:"lastChange,omitempty"`
	Pods       int        `json:"pods"`
	// File is there for the source "file", HTTP for "http", API for "api".
	File *FileStatus `json:"file,omitempty"`
	HTTP *HTTPStatus `json:"http,omitempty"`
	API  *APIStatus  `json:"api,omitempty"`
}

// FileStatus is what only a file source has to say.
type FileStatus struct {
	// Path is the manifest path.
	Path string `json:"path"`
	// Absent: the path was not there at the start and is not there yet.
	Absent bool `json:"absent,omitempty"`
	// Watch is "inotify", or "polling" where that can't be had; WatchError says why.
	Watch      string `json:"watch"`
	WatchError string `json:"watchError,omitempty"`
	// Overflows counts how often inotify lost events and the path was listed anew.
	Overflows int `json:"overflows,omitempty"`
	// Settling counts the files that are being written, or gone for a moment only.
	Settling int `json:"settling,omitempty"`
	// Manifests has a verdict for each manifest file, by path: for 1000 that are Accepted
	// and 200 of each other state at most. ManifestsOmitted counts the others by state.
	Manifests        []Manifest            `json:"manifests"`
	ManifestsOmitted map[ManifestState]int `json:"manifestsOmitted,omitempty"`
}

// HTTPStatus is what only an HTTP source has to say.
type HTTPStatus struct {
	// URL is the manifest URL without user and query.
	URL string `json:"url"`
	// LastSuccess is when the server last gave a good answer.
	LastSuccess *time.Time `json:"lastSuccess,omitempty"`
	// Manifests has a verdict for each pod that it served: for 1000 that are Accepted and
	// 200 of each other state at most. ManifestsOmitted counts the others by state.
	Manifests        []Manifest            `json:"manifests"`
	ManifestsOmitted map[ManifestState]int `json:"manifestsOmitted,omitempty"`
}

// APIStatus is what only an apiserver source has to say.
type APIStatus struct {
	// Server is the apiserver's URL.
	Server string `json:"server"`
	// NodeKnown: the apiserver knows the node; its pods are held back until then.
	NodeKnown bool `json:"nodeKnown"`
	// Connected: there is a watch.
	Connected bool `json:"connected"`
	// LastList is when all pods were listed last, LastEvent when the watch gave its
	// last event, bookmarks among them.
	LastList  *time.Time `json:"lastList,omitempty"`
	LastEvent *time.Time `json:"lastEvent,omitempty"`
	// Relists counts the lists after the first, WatchRestarts the watches that went on
	// where one before had ended.
	Relists       int `json:"relists"`
	WatchRestarts int `json:"watchRestarts"`
}

// ManifestState says what became of a manifest.
type ManifestState string

// The states of a manifest.
const (
	// ManifestAccepted: its pod is in the source's set.
	ManifestAccepted ManifestState = "Accepted"
	// ManifestRejected: it can't be used and gave no pod before.
	ManifestRejected ManifestState = "Rejected"
	// ManifestHeld: it can't be used now; the pod that it gave before is in the set.
	ManifestHeld ManifestState = "Held"
	// ManifestShadowed: it is valid, but another manifest has its pod's name or UID.
	ManifestShadowed ManifestState = "Shadowed"
)

// Manifest is the verdict on one manifest.
type Manifest struct {
	// Path is the file, or in a list the place where there is no name.
	Path string `json:"path,omitempty"`
	// State is what became of the manifest.
	State ManifestState `json:"state"`
	// Namespace, Name and UID are those of the pod that it gives or gave last.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Reason is one word and Message a sentence on why it was not accepted.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Warnings are what the kubelet would pass over in silence.
	Warnings []string `json:"warnings,omitempty"`
}

// Subscriber is one reader of the stream.
type Subscriber struct {
	ID int64 `json:"id"`
	// PID and UID are those of the process at the other end of the socket.
	PID       int32     `json:"pid,omitempty"`
	UID       *uint32   `json:"uid,omitempty"`
	UserAgent string    `json:"userAgent,omitempty"`
	Mode      string    `json:"mode"`
	Since     time.Time `json:"since"`
	// Revision is the newest one it was given, Lag the number of revisions after it.
	Revision int64 `json:"revision"`
	Lag      int64 `json:"lag"`
	// Resets counts how often it fell behind and was given the state anew.
	Resets int `json:"resets,omitempty"`
}
