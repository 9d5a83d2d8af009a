package wire

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Created returns the creationTimestamp for the Kubernetes API: the pod's own, or for a
// static pod, which has none, the time at which it was first seen. It is zero if neither
// is known.
func Created(p *journal.Pod) metav1.Time {
	if !p.Object.CreationTimestamp.IsZero() {
		return p.Object.CreationTimestamp
	}
	return firstSeen(&p.Object.ObjectMeta)
}

// firstSeen returns the time at which a pod without a creationTimestamp was first seen,
// in whole seconds. It stays the same for as long as its source has the UID.
func firstSeen(pod *metav1.ObjectMeta) metav1.Time {
	if !pod.CreationTimestamp.IsZero() {
		return metav1.Time{}
	}
	seen, err := time.Parse(time.RFC3339, pod.Annotations[config.ConfigFirstSeenAnnotationKey])
	if err != nil { // the pod is not from the merge
		return metav1.Time{}
	}
	return metav1.Unix(seen.Unix(), 0)
}
