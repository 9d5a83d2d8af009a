package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// NamedSource returns the full name of a source: "file:NAME" for the kind FileSource, "http:NAME" for HTTPSource. If
// the name is empty, it returns the kind.
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

// IsSourceName reports whether name can be the NAME in "file:NAME" or "http:NAME": it is a DNS label.
func IsSourceName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// SplitSource returns the name and the place of a flag's value, [NAME=]PLACE. A value without
// a DNS label before the first "=" is a place, so "./a=b" is a path, and "?x=y" in a URL is
// not a name.
func SplitSource(value string) (name, place string) {
	if name, place, ok := strings.Cut(value, "="); ok && IsSourceName(name) {
		return name, place
	}
	return "", value
}

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
	// RECONCILE: pods whose status alone changed, or their owner references with FollowOwners.
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
	// METADATA: no pods, labels and annotations of namespaces or the node, only on the stream.
	METADATA
	// OWNERS: unchanged pods whose owners became known or changed. On the stream, it is a RECONCILE for subscribers that request
	// owners.
	OWNERS
)

var operationNames = [...]string{
	"ADD", "DELETE", "REMOVE", "UPDATE", "RECONCILE", "SET", "SYNC", "PLEG", "HOUSEKEEPING", "BOOKMARK", "METADATA", "OWNERS",
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
	for i, n := range operationNames[:OWNERS] {
		if n == name {
			return PodOperation(i), nil
		}
	}
	return 0, fmt.Errorf("unknown operation %q: expected one of %s", name, strings.Join(operationNames[:OWNERS], ", "))
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
	// Attributes are the attributes of the set. Only its last update has them.
	Attributes map[string]string
	// Event is the event of the set.
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
	// SourceRemoved: the source is gone. The update is a REMOVE of its pods, which may be
	// none. It is the last update of the source.
	SourceRemoved
)

// File is the manifest file of a pod when the version of the pod was read.
type File struct {
	Path     string
	UID, GID uint32
	// Mode has the permission bits.
	Mode uint32
	// Before has the names of the files that had the name of the pod before, the first one first, with slashes in between. The
	// pod's name goes back to such a file when it is there again.
	Before string `json:",omitempty"`
}

// WithStatus returns a copy of the pod with another status. The copy shares everything else with the pod. If the
// status is nil, WithStatus returns the pod itself.
func WithStatus(pod *v1.Pod, status *v1.PodStatus) *v1.Pod {
	if status == nil {
		return pod
	}
	shown := *pod
	shown.Status = *status
	return &shown
}

// SourceSet is the full set of pods of a source at one moment. After the source has sent
// the set, it and its pods are shared: nobody may write to them.
type SourceSet struct {
	Pods []*v1.Pod
	// Origin is the origin of the pods, for the log: a path, or a URL without secrets.
	Origin string
	// Files has the manifest file of each pod of Pods; nil if the pods are not from files.
	Files []*File
	// Attributes are further data that the source needs after a restart to continue from this set, such as
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

// KubeletWroteStatus reports by managedFields whether a kubelet has written the status of a pod. Everybody with the right to
// change pods can write managedFields, but no status: the result is no proof if podconfigd has written a status too.
func KubeletWroteStatus(pod *v1.Pod) bool {
	return pod.Status.StartTime != nil && slices.ContainsFunc(pod.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "kubelet" && f.Subresource == "status"
	})
}

// SourcesReady reports whether every source has been seen. A source has been seen when its
// first set was merged and the updates of that set were handled. The handler of the updates
// implements it.
//
// kubelet: pkg/kubelet/config/sources.go SourcesReady.
type SourcesReady interface {
	AllReady() bool
	// KindReady reports whether there are sources of a kind, and every one of them has been seen. The kubelet has no such
	// method: its housekeeping waits for all sources.
	KindReady(kind string) bool
}

// Event is what made a source send a set. It travels with the set, so that the delay of an
// update is known at each step. The zero value is no event: then the delay is not measured.
type Event struct {
	// Time is when the event arrived at the source: an event of inotify, the answer of a
	// server, an event of a watch, or the start of the listing that noticed the change. An
	// event that waited while the source was busy counts from when the source became busy.
	Time time.Time
	// Began is when the source began to read the change, and Read when it had the set.
	Began, Read time.Time
}

// immediate is the longest time that it takes to receive an event that was already there.
const immediate = 50 * time.Microsecond

// ArrivedAt returns the arrival time of the event that is received now. The wait for it began at idle. If the event was
// already there, it arrived during the work before the wait, and the result is the start of that work, began. A zero
// began is unknown.
func ArrivedAt(idle, began time.Time) time.Time {
	if now := time.Now(); began.IsZero() || now.Sub(idle) >= immediate {
		return now
	}
	return began
}
