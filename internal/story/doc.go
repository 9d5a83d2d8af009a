// Package story answers why a pod does not run: it puts together what a daemon knows of one
// pod or one manifest, judges its health, and names what to do.
//
// [Ask] requests the facts and tells the story. A program that has the facts uses [Find] and
// [Tell].
package story

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Facts are the answers of a daemon.
type Facts struct {
	Status *v1alpha1.Status
	// Pods are all pods, with mirror pods.
	Pods []v1.Pod
	// Runtime are the pods of the container runtime. It is nil if the daemon has none.
	Runtime *v1alpha1.RuntimePods
	// Versions has the answer to a lookup of a pod, by its UID. A pod may be missing.
	Versions map[string]*v1alpha1.LookupPod
	// Changes are the last changes of the pod, oldest first.
	Changes []v1alpha1.HistoryRecord
	// Unanswered lists what the daemon did not answer, and why.
	Unanswered []string
}

// Subject is what a story is about: a pod, a manifest, or both.
type Subject struct {
	// Namespace and Name identify the pod. They are empty for a manifest without a pod.
	Namespace, Name string
	// Manifest is the manifest that was asked for, of the source Source. It is nil if the pod
	// was asked for.
	Manifest *v1alpha1.Manifest
	Source   string
}
