package v1alpha1

import "maps"

// Owner is a controller: that of a pod, or that of another owner. A static pod has its manifest file and the node as owners.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// UID is the UID in the reference to the owner. It is empty for a manifest file, and for a node that the apiserver does not
	// have.
	UID string `json:"uid,omitempty"`
	// Labels are those that the owner had when the daemon asked for it. They are not set if it is not
	// known, and for a manifest file and a node.
	Labels map[string]string `json:"labels,omitempty"`
}

// FileKind is the kind of the owner of a static pod that is its manifest file: it has a path as its name, and neither apiVersion nor UID.
const FileKind = "File"

// IsFile reports whether the owner is a manifest file.
func (o Owner) IsFile() bool { return o.Kind == FileKind && o.APIVersion == "" }

// Equal reports whether two owners are the same, with the same labels.
func (o Owner) Equal(other Owner) bool {
	return o.APIVersion == other.APIVersion && o.Kind == other.Kind && o.Name == other.Name && o.UID == other.UID && maps.Equal(o.Labels, other.Labels)
}

// OwnersStatus is what the daemon knows about the owners of the pods. A client that does not see everything
// gets none of the fields.
type OwnersStatus struct {
	// Known is the number of owners of the current pods that the apiserver has answered for, and Waiting the
	// number of the others. Nodes are not counted.
	Known   int `json:"known"`
	Waiting int `json:"waiting"`
	// LastError is why the last request failed; empty if the apiserver answered it.
	LastError string `json:"lastError,omitempty"`
	// Notes say which owners the apiserver does not have, and which kinds the daemon may not read. They
	// are no problems: the daemon then knows the pods' own references only.
	Notes []string `json:"notes,omitempty"`
	// NotesOmitted is the number of further notes.
	NotesOmitted int `json:"notesOmitted,omitempty"`
}
