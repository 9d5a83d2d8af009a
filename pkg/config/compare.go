package config

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/deepequal"
)

// localAnnotations are those that the merge keeps itself. They are carried over
// from version to version and are no reason for an update.
//
// kubelet: pkg/kubelet/config/config.go localAnnotations.
var localAnnotations = []string{
	ConfigSourceAnnotationKey,
	ConfigMirrorAnnotationKey,
	ConfigFirstSeenAnnotationKey,
}

// change is what a new version of a pod amounts to.
type change int

const (
	unchanged change = iota
	updated
	reconciled
	deleted
)

// checkAndUpdatePod compares the pod as it is known with the version that the
// source has now. It returns the pod as it is to be known from now on, a shallow
// copy where something changed and existing itself where nothing did, and what
// the change amounts to. Neither of its arguments is written to.
//
// What is taken over is what the kubelet takes over: an update brings spec,
// labels, deletion fields, generation, status and annotations; a reconcile the
// status alone.
//
// kubelet: pkg/kubelet/config/config.go checkAndUpdatePod.
func checkAndUpdatePod(existing, ref *v1.Pod) (*v1.Pod, change) {
	if !podsDifferSemantically(existing, ref) {
		if sameStatus(&existing.Status, &ref.Status) {
			return existing, unchanged
		}
		pod := *existing
		pod.Status = ref.Status
		return &pod, reconciled
	}

	pod := *existing
	pod.Spec = ref.Spec
	pod.Labels = ref.Labels
	pod.DeletionTimestamp = ref.DeletionTimestamp
	pod.DeletionGracePeriodSeconds = ref.DeletionGracePeriodSeconds
	pod.Generation = ref.Generation
	pod.Status = ref.Status
	pod.Annotations = carryAnnotations(existing.Annotations, ref.Annotations)
	if ref.DeletionTimestamp != nil {
		return &pod, deleted
	}
	return &pod, updated
}

// These compare as reflect.DeepEqual does, which is what the kubelet compares with.
var (
	sameSpec    = deepequal.Of[v1.PodSpec]()
	sameStatus  = deepequal.Of[v1.PodStatus]()
	sameLabels  = deepequal.Of[map[string]string]()
	sameTime    = deepequal.Of[*metav1.Time]()
	sameSeconds = deepequal.Of[*int64]()
)

// podsDifferSemantically tells whether the versions differ in anything but
// status and local annotations. A nil and an empty list or map are different, as
// they are to the kubelet.
//
// kubelet: pkg/kubelet/config/config.go podsDifferSemantically.
func podsDifferSemantically(existing, ref *v1.Pod) bool {
	return !sameSpec(&existing.Spec, &ref.Spec) ||
		!sameLabels(&existing.Labels, &ref.Labels) ||
		!sameTime(&existing.DeletionTimestamp, &ref.DeletionTimestamp) ||
		!sameSeconds(&existing.DeletionGracePeriodSeconds, &ref.DeletionGracePeriodSeconds) ||
		!isAnnotationMapEqual(existing.Annotations, ref.Annotations)
}

// isAnnotationMapEqual tells whether the annotations are the same but for the
// local ones.
//
// kubelet: pkg/kubelet/config/config.go isAnnotationMapEqual.
func isAnnotationMapEqual(existing, candidate map[string]string) bool {
	foreign := 0
	for k, v := range candidate {
		if isLocalAnnotationKey(k) {
			continue
		}
		if was, ok := existing[k]; !ok || was != v {
			return false
		}
		foreign++
	}
	local := 0
	for _, key := range localAnnotations {
		if _, ok := existing[key]; ok {
			local++
		}
	}
	return foreign == len(existing)-local
}

func isLocalAnnotationKey(key string) bool {
	return slices.Contains(localAnnotations, key)
}

// carryAnnotations returns the source's annotations with the local ones of the
// existing version over them.
//
// kubelet: pkg/kubelet/config/config.go updateAnnotations.
func carryAnnotations(existing, ref map[string]string) map[string]string {
	annotations := make(map[string]string, len(ref)+len(localAnnotations))
	maps.Copy(annotations, ref)
	for _, key := range localAnnotations {
		if v, ok := existing[key]; ok {
			annotations[key] = v
		}
	}
	return annotations
}

// annotate returns a shallow copy of a pod that is new to the source, with the
// source's name and the time at which it was first seen.
func annotate(ref *v1.Pod, source string, now time.Time) *v1.Pod {
	pod := *ref
	pod.Annotations = make(map[string]string, len(ref.Annotations)+2)
	maps.Copy(pod.Annotations, ref.Annotations)
	pod.Annotations[ConfigSourceAnnotationKey] = source
	pod.Annotations[ConfigFirstSeenAnnotationKey] = now.Format(time.RFC3339Nano)
	return &pod
}
