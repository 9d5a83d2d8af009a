package client

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// seenAnnotation is when the daemon first saw the pod. A restart of the daemon changes it.
const seenAnnotation = "kubernetes.io/config.seen"

// same reports whether two versions of a pod have no difference for which the daemon sends an
// UPDATE, DELETE or RECONCILE. Either may be nil.
func same(a, b *v1.Pod) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return equality.Semantic.DeepEqual(&a.Spec, &b.Spec) &&
		equality.Semantic.DeepEqual(&a.Status, &b.Status) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(foreignAnnotations(a), foreignAnnotations(b)) &&
		equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds)
}

func foreignAnnotations(pod *v1.Pod) map[string]string {
	foreign := maps.Clone(pod.Annotations)
	delete(foreign, seenAnnotation)
	return foreign
}
