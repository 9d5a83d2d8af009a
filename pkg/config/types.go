package config

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Annotation keys that the merge sets or treats as its own.
//
// kubelet: pkg/kubelet/types/pod_update.go.
const (
	ConfigSourceAnnotationKey    = "kubernetes.io/config.source"
	ConfigMirrorAnnotationKey    = v1.MirrorPodAnnotationKey
	ConfigFirstSeenAnnotationKey = "kubernetes.io/config.seen"
	ConfigHashAnnotationKey      = "kubernetes.io/config.hash"
)

// Names of the sources, as the kubelet has them.
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

// ParseSource returns the name of a source, or an empty string for all of them.
func ParseSource(name string) (string, error) {
	switch name {
	case FileSource, HTTPSource, ApiserverSource:
		return name, nil
	case "", AllSource:
		return "", nil
	}
	return "", fmt.Errorf("unknown source %q: want %s, %s or %s", name, FileSource, HTTPSource, ApiserverSource)
}

// PodOperation says what an update does to the pods it carries.
type PodOperation int

// The operations. ADD to RECONCILE leave the merge; the others join the stream
// further down.
//
// kubelet: pkg/kubelet/types/pod_update.go.
const (
	// ADD: pods that are new to the source.
	ADD PodOperation = iota
	// DELETE: pods that are being deleted gracefully (deletionTimestamp is set).
	DELETE
	// REMOVE: pods that the source no longer has.
	REMOVE
	// UPDATE: pods of which the source has another version.
	UPDATE
	// RECONCILE: pods of which only the status differs from what was known.
	RECONCILE
	// SET: all pods of all sources; in the snapshot modes only.
	SET
	// SYNC: pods that are due to be looked at again, unchanged.
	SYNC
	// PLEG: a pod whose containers changed state in the runtime.
	PLEG
	// HOUSEKEEPING: pods that run and that no source wants.
	HOUSEKEEPING
	// BOOKMARK: no pods; a point from which the stream can be resumed.
	BOOKMARK
)

var operationNames = [...]string{
	"ADD", "DELETE", "REMOVE", "UPDATE", "RECONCILE", "SET", "SYNC", "PLEG", "HOUSEKEEPING", "BOOKMARK",
}

// String returns the operation's name as it stands in the stream.
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
	return 0, fmt.Errorf("unknown operation %q: want one of %v", name, operationNames)
}

// IsConfig tells whether the operation is one that the merge emits.
func (o PodOperation) IsConfig() bool { return o <= RECONCILE }

// PodUpdate is one change: an operation and the pods it concerns. Pods is never
// nil, and the pods in it are shared and must not be written to.
type PodUpdate struct {
	Pods   []*v1.Pod
	Op     PodOperation
	Source string
	// More is true when another update out of the same source set follows: what
	// a set changed is complete with the first update that has it false.
	More bool
}

// SourceSet is the full set of pods that a source has at one moment. The pods
// belong to everyone once they are sent: neither the source nor anyone else may
// write to them.
type SourceSet struct {
	Pods []*v1.Pod
	// Origin is where the pods were read, for the log: a path, or a URL without secrets.
	Origin string
}

// IsMirrorPod tells whether the pod is the apiserver's image of a static pod.
//
// kubelet: pkg/kubelet/types/pod_update.go IsMirrorPod.
func IsMirrorPod(pod *v1.Pod) bool {
	_, ok := pod.Annotations[ConfigMirrorAnnotationKey]
	return ok
}
