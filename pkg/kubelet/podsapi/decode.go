package podsapi

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Field numbers of a v1.Pod, of its metadata and of an entry of a map.
//
// kubernetes: staging/src/k8s.io/api/core/v1/generated.proto, apimachinery/pkg/apis/meta/v1/generated.proto.
const (
	podMetadata, podStatus                                            = 1, 3
	metadataName, metadataNamespace, metadataUID, metadataAnnotations = 1, 3, 5, 12
	entryKey, entryValue                                              = 1, 2
)

// pod has the parts of a pod that the Client needs. Its spec, which is the largest part, is not decoded: that would take a
// hundred times as long for a pod that has not changed.
type pod struct {
	uid    types.UID
	name   types.NamespacedName
	source string
	// seen is when the kubelet first saw the pod; zero if it does not say that.
	seen time.Time
	// raw is the encoded status, and sum its hash.
	raw []byte
	sum uint64
}

var seed = maphash.MakeSeed()

var errEncoding = errors.New("the kubelet sent a pod that is not valid protobuf")

// decode returns the parts of an encoded pod.
func decode(data []byte) (p pod, err error) {
	err = fields(data, func(field protowire.Number, value []byte) error {
		switch field {
		case podMetadata:
			return fields(value, p.metadata)
		case podStatus:
			p.raw = value
		}
		return nil
	})
	if err == nil && p.uid == "" {
		err = errors.New("the kubelet sent a pod without a UID")
	}
	p.sum = maphash.Bytes(seed, p.raw)
	return p, err
}

func (p *pod) metadata(field protowire.Number, value []byte) error {
	switch field {
	case metadataName:
		p.name.Name = string(value)
	case metadataNamespace:
		p.name.Namespace = string(value)
	case metadataUID:
		p.uid = types.UID(value)
	case metadataAnnotations:
		var key, text []byte
		err := fields(value, func(field protowire.Number, value []byte) error {
			switch field {
			case entryKey:
				key = value
			case entryValue:
				text = value
			}
			return nil
		})
		switch string(key) {
		case config.ConfigSourceAnnotationKey:
			p.source = sourceOf(text)
		case config.ConfigFirstSeenAnnotationKey:
			p.seen, _ = time.Parse(time.RFC3339Nano, string(text)) // otherwise it is not known
		}
		return err
	}
	return nil
}

// sourceOf returns the source that a kubelet names; a text that no kubelet has takes no memory.
func sourceOf(text []byte) string {
	for _, source := range []string{config.FileSource, config.HTTPSource, config.ApiserverSource} {
		if string(text) == source {
			return source
		}
	}
	return ""
}

// status decodes the status.
func (p *pod) status() (*v1.PodStatus, error) {
	status := new(v1.PodStatus)
	if err := status.Unmarshal(p.raw); err != nil {
		return nil, fmt.Errorf("decoding the status that the kubelet gave the pod %v: %w", p.name, err)
	}
	return status, nil
}

// fields calls do for each length-delimited field of a message.
func fields(data []byte, do func(field protowire.Number, value []byte) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errEncoding
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, data); n < 0 {
				return errEncoding
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errEncoding
		}
		data = data[n:]
		if err := do(field, value); err != nil {
			return err
		}
	}
	return nil
}
