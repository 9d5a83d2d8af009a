package v1alpha1

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// History is the object of /v1alpha1/history: a page of the changes on the node, oldest
// first.
type History struct {
	Records []HistoryRecord `json:"records"`
	// Continue requests the next page, with the same other parameters. It is empty on the
	// last page.
	Continue string `json:"continue,omitempty"`
}

// HistoryRecord is one change of one pod. If Gap is set, changes are missing instead.
type HistoryRecord struct {
	// Time is the time at which the daemon recorded the change.
	Time *time.Time `json:"time,omitempty"`
	// Instance and Revision are those of the stream.
	Instance string `json:"instance,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// UpdateRevision is the revision of the update in the stream, if it is another. An update of several pods has that of its
	// last one.
	UpdateRevision int64  `json:"updateRevision,omitempty"`
	Op             Op     `json:"op,omitempty"`
	Source         string `json:"source,omitempty"`
	// Namespace, Name and UID identify the pod. They are empty if a source delivered an
	// empty first set.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// File is the manifest file of this version, for a file source. In a REMOVE, it is
	// that of the removed version.
	File *HistoryFile `json:"file,omitempty"`
	// Replaced is true in a REMOVE if another pod takes over the name at once. Its ADD
	// follows. An edited static pod is another pod.
	Replaced bool `json:"replaced,omitempty"`
	// Changes describes the difference to Before, one field each, for people:
	// long values are shortened, and a line counts the differences beyond the first 50.
	Changes []string `json:"changes,omitempty"`
	// Gap is the reason why changes before the next record are missing.
	Gap string `json:"gap,omitempty"`
	// Before and Pod are the previous and the new version of the pod, if they are requested.
	// A REMOVE has no Pod. An ADD has a Before if it replaces another pod.
	Before *v1.Pod `json:"before,omitempty"`
	Pod    *v1.Pod `json:"pod,omitempty"`
}

// HistoryFile is a manifest file when the version of the pod was read.
type HistoryFile struct {
	Path string `json:"path"`
	// UID and GID are the owner, Mode has the permission bits, in octal.
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Mode string `json:"mode"`
}
