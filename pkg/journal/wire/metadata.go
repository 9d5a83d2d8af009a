package wire

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// metadataOf returns the pod's metadata as an object of the Kubernetes API.
func metadataOf(p *journal.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()},
		ObjectMeta: p.Object.ObjectMeta,
	}
}

// AppendMetadataJSON appends the pod's metadata as a PartialObjectMetadata in JSON. The
// revision is its resourceVersion.
func AppendMetadataJSON(to []byte, p *journal.Pod, revision int64) ([]byte, error) {
	f, err := journal.Once(p.Memo, metadataJSONKey, func() (jsonForm, error) {
		encodes.WithLabelValues("metadata-json").Inc()
		return encodeJSON(metadataOf(p), &p.Object.ObjectMeta)
	})
	if err != nil {
		return to, err
	}
	return f.append(to, revision), nil
}

// AppendMetadataProtobuf appends the pod's metadata as a PartialObjectMetadata in
// protobuf. The revision is its resourceVersion.
func AppendMetadataProtobuf(to []byte, p *journal.Pod, revision int64) ([]byte, error) {
	f, err := journal.Once(p.Memo, metadataProtobufKey, func() (protobufForm, error) {
		encodes.WithLabelValues("metadata-protobuf").Inc()
		return encodeProtobuf(metadataOf(p), &p.Object.ObjectMeta)
	})
	if err != nil {
		return to, err
	}
	return f.append(to, revision), nil
}

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
