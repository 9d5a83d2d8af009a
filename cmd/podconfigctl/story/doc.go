// Package story answers why a pod does not run. It collects what a daemon knows about one pod or one manifest, judges its
// health, and says what to do:
//
//	s, err := story.Ask(ctx, client, "kube-system/web")
//	fmt.Println(s.Health, s.Summary, s.Fix)
//
// [Ask] requests the facts from the daemon. A program that already has them calls [Find] and [Tell].
package story

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Facts are the answers of a daemon.
type Facts struct {
	Status *v1alpha1.Status
	// Pods has all pods, also mirror pods.
	Pods []v1.Pod
	// Runtime has the pods of the container runtime; nil without a runtime.
	Runtime *v1alpha1.RuntimePods
	// Versions has the answers to lookups of pods, by UID. Pods can be missing.
	Versions map[string]*v1alpha1.LookupPod
	// Changes has the last changes of the pod, oldest first.
	Changes []v1alpha1.HistoryRecord
	// Unanswered lists the questions that the daemon did not answer, with the reasons.
	Unanswered []string
}

// Subject is what a story is about: a pod, a manifest, or both.
type Subject struct {
	// Namespace and Name identify the pod. They are empty for a manifest without a pod.
	Namespace, Name string
	// Manifest is the manifest that the user named, Source its source. Manifest is nil if the user named the pod.
	Manifest *v1alpha1.Manifest
	Source   string
}
