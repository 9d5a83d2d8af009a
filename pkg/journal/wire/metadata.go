package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
