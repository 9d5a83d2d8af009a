package config

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotation keys that the merge sets or treats as local.
//
// kubelet: pkg/kubelet/types/pod_update.go.
const (
	ConfigSourceAnnotationKey    = "kubernetes.io/config.source"
	ConfigFirstSeenAnnotationKey = "kubernetes.io/config.seen"
	ConfigHashAnnotationKey      = "kubernetes.io/config.hash"
)

// AddedAnnotations are the annotations that no user writes: the merge and the sources add them.
var AddedAnnotations = []string{ConfigSourceAnnotationKey, ConfigFirstSeenAnnotationKey, ConfigHashAnnotationKey}

// OwnMirrorAnnotationKey marks a mirror pod that podconfigd created. The source of the apiserver gives it the
// value AdoptedMirror if a kubelet has written its status.
const (
	OwnMirrorAnnotationKey = "podconfigd.dev/mirror"
	AdoptedMirror          = "adopted"
)

// Names of the sources, as in the kubelet. They are also the kinds of the named sources
// "file:NAME" and "http:NAME".
const (
	// FileSource names the static pod directory or file.
	FileSource = "file"
	// HTTPSource names the manifest URL.
	HTTPSource = "http"
	// ApiserverSource names the apiserver.
	ApiserverSource = "api"
	// AllSource stands for every source.
	AllSource = "*"
)

// NamedSource returns the name of the source of that kind, FileSource or HTTPSource, with
// that name of its own: the kind itself if the name is empty, otherwise "file:NAME".
func NamedSource(kind, name string) string {
	if name == "" {
		return kind
	}
	return kind + ":" + name
}

// SourceKind returns the kind of a source: FileSource for "file" and "file:NAME".
func SourceKind(source string) string {
	kind, _, _ := strings.Cut(source, ":")
	return kind
}

// IsSourceName reports whether a source can have this name of its own: it is a DNS label.
func IsSourceName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// ParseSource returns the name of a source, or an empty string for all sources.
func ParseSource(name string) (string, error) {
	switch name {
	case FileSource, HTTPSource, ApiserverSource:
		return name, nil
	case "", AllSource:
		return "", nil
	}
	if kind, own, named := strings.Cut(name, ":"); named && (kind == FileSource || kind == HTTPSource) && IsSourceName(own) {
		return name, nil
	}
	return "", fmt.Errorf("unknown source %q: expected %s, %s, %s, %s or %s", name, FileSource, HTTPSource, ApiserverSource,
		NamedSource(FileSource, "NAME"), NamedSource(HTTPSource, "NAME"))
}

// PodOperation is the meaning of an update for its pods.
type PodOperation int

// The operations. The merge emits ADD to RECONCILE. Later stages add the others.
//
// kubelet: pkg/kubelet/types/pod_update.go.
const (
	// ADD: pods that are new in the source.
	ADD PodOperation = iota
	// DELETE: pods that are being deleted gracefully (deletionTimestamp is set).
	DELETE
	// REMOVE: pods that are no longer in the source.
	REMOVE
	// UPDATE: pods that changed.
	UPDATE
	// RECONCILE: pods whose status alone changed.
	RECONCILE
	// SET: all pods of all sources, only in the snapshot modes.
	SET
	// SYNC: unchanged pods that are due for a sync.
	SYNC
	// PLEG: a pod whose containers changed state in the runtime.
	PLEG
	// HOUSEKEEPING: pods in the runtime that are in no source.
	HOUSEKEEPING
	// BOOKMARK: no pods, a point from which the stream can be resumed.
	BOOKMARK
)

var operationNames = [...]string{
	"ADD", "DELETE", "REMOVE", "UPDATE", "RECONCILE", "SET", "SYNC", "PLEG", "HOUSEKEEPING", "BOOKMARK",
}

// String returns the name of the operation in the stream.
func (o PodOperation) String() string {
	if o < 0 || int(o) >= len(operationNames) {
		return fmt.Sprintf("PodOperation(%d)", int(o))
	}
	return operationNames[o]
}

// ParseOperation returns the operation of that name.
func ParseOperation(name string) (PodOperation, error) {
	for i, n := range operationNames {
		if n == name {
			return PodOperation(i), nil
		}
	}
	return 0, fmt.Errorf("unknown operation %q: expected one of %v", name, operationNames)
}

// IsConfig reports whether the merge emits the operation.
func (o PodOperation) IsConfig() bool { return o <= RECONCILE }

// PodUpdate is one operation and its pods. Pods is never nil. The pods are shared: do not
// write to them.
type PodUpdate struct {
	Pods   []*v1.Pod
	Op     PodOperation
	Source string
	// More is true if another update of the same set follows. The first update with More
	// false completes the changes of a set.
	More bool
	// Files has the manifest file of each pod; nil if the pods are not from files.
	Files []*File
	// Statuses has the status to show of each pod instead of the pod's own; nil for its own.
	// Statuses itself may be nil. The sync loop sets it, not the merge.
	Statuses []*v1.PodStatus
	// StatusOnly is true for a RECONCILE of the sync loop: Statuses changed, and the source
	// sent nothing.
	StatusOnly bool
	// Attributes are those of the set, in its last update.
	Attributes map[string]string
	// Event is that of the set.
	Event Event
	// Change is set if the source itself was added or removed while PodConfig runs.
	Change SourceChange
}

// SourceChange is a change of the list of sources.
type SourceChange int

// The changes.
const (
	// SourceAdded: the source is new, and not seen. The update has no pods, and the operation
	// BOOKMARK.
	SourceAdded SourceChange = iota + 1
	// SourceRemoved: the source is gone. The update is the REMOVE of its pods, which may be
	// none, and the last update of the source.
	SourceRemoved
)

// File is the manifest file of a pod when the version of the pod was read.
type File struct {
	Path     string
	UID, GID uint32
	// Mode has the permission bits.
	Mode uint32
}

// WithStatus returns the pod with another status, in a copy that shares everything else; or
// the pod itself if the status is nil.
func WithStatus(pod *v1.Pod, status *v1.PodStatus) *v1.Pod {
	if status == nil {
		return pod
	}
	shown := *pod
	shown.Status = *status
	return &shown
}

// SourceSet is the full set of pods of a source at one moment. After the source has sent
// the set, the pods are shared: nobody may write to them.
type SourceSet struct {
	Pods []*v1.Pod
	// Origin is the origin of the pods, for the log: a path, or a URL without secrets.
	Origin string
	// Files has the manifest file of each pod of Pods; nil if the pods are not from files.
	Files []*File
	// Attributes are what the source needs to go on from this set after a restart, such as
	// an ETag. They are stored with the set and restored with its pods.
	Attributes map[string]string
	// Event is what made the source send the set.
	Event Event
}

// IsMirrorPod reports whether the pod is a mirror pod: the copy of a static pod in the
// apiserver.
//
// kubelet: pkg/kubelet/types/pod_update.go IsMirrorPod.
func IsMirrorPod(pod *v1.Pod) bool {
	_, ok := pod.Annotations[v1.MirrorPodAnnotationKey]
	return ok
}

// IsOwnMirrorPod reports whether podconfigd created the mirror pod, and no kubelet has adopted it.
func IsOwnMirrorPod(pod *v1.Pod) bool {
	value, own := pod.Annotations[OwnMirrorAnnotationKey]
	return own && value != AdoptedMirror
}

// KubeletWroteStatus reports by managedFields whether a kubelet has written the status of a pod.
func KubeletWroteStatus(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "kubelet" && f.Subresource == "status"
	})
}
