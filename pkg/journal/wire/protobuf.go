package wire

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// protobufForm is a pod as protobuf, and the position of its metadata.
type protobufForm struct {
	data []byte
	// start and end are the range of the metadata, which is the first field.
	start, end int
	// created is the content of the field creationTimestamp for a pod without one.
	created []byte
}

// Field numbers of v1.Pod and metav1.ObjectMeta.
const (
	podMetadata           = 1
	metaResourceVersion   = 6
	metaCreationTimestamp = 8
)

// encodeProtobuf encodes an object whose first field is a pod's metadata.
func encodeProtobuf(object interface{ Marshal() ([]byte, error) }, pod *metav1.ObjectMeta) (protobufForm, error) {
	data, err := object.Marshal()
	if err != nil {
		return protobufForm{}, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	number, _, tag := protowire.ConsumeTag(data)
	if number != podMetadata {
		return protobufForm{}, fmt.Errorf("encoding pod %s/%s: the first field is %d, not the metadata", pod.Namespace, pod.Name, number)
	}
	meta, n := protowire.ConsumeBytes(data[tag:])
	if n < 0 {
		return protobufForm{}, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, protowire.ParseError(n))
	}
	f := protobufForm{data: data, start: tag + n - len(meta), end: tag + n}
	if created := firstSeen(pod); !created.IsZero() {
		if f.created, err = created.Marshal(); err != nil {
			return protobufForm{}, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return f, nil
}

func protobufOf(p *journal.Pod) (protobufForm, error) {
	return journal.Once(p.Memo, protobufKey, func() (protobufForm, error) {
		encodes.WithLabelValues("protobuf").Inc()
		return encodeProtobuf(p.Object, &p.Object.ObjectMeta)
	})
}

// Protobuf returns the result of v1.Pod.Marshal. The bytes are read-only.
func Protobuf(p *journal.Pod) ([]byte, error) {
	f, err := protobufOf(p)
	return f.data, err
}

// AppendProtobuf appends the pod as protobuf for the Kubernetes API. The revision is its
// resourceVersion.
func AppendProtobuf(to []byte, p *journal.Pod, revision int64) ([]byte, error) {
	f, err := protobufOf(p)
	if err != nil {
		return to, err
	}
	return f.append(to, revision), nil
}

// append appends the protobuf with a resourceVersion, and with a creationTimestamp if it
// has none.
func (f *protobufForm) append(to []byte, revision int64) []byte {
	// If a field is there twice, the last one counts.
	var digits [20]byte
	version := strconv.AppendInt(digits[:0], revision, 10)
	meta := f.data[f.start:f.end]
	size := len(meta) + protowire.SizeTag(metaResourceVersion) + protowire.SizeBytes(len(version))
	if len(f.created) > 0 {
		size += protowire.SizeTag(metaCreationTimestamp) + protowire.SizeBytes(len(f.created))
	}
	to = protowire.AppendTag(to, podMetadata, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(size))
	to = append(to, meta...)
	to = protowire.AppendTag(to, metaResourceVersion, protowire.BytesType)
	to = protowire.AppendBytes(to, version)
	if len(f.created) > 0 {
		to = protowire.AppendTag(to, metaCreationTimestamp, protowire.BytesType)
		to = protowire.AppendBytes(to, f.created)
	}
	return append(to, f.data[f.end:]...)
}

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
