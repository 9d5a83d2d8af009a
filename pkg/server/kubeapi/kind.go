package kubeapi

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// kind is a kind of object as which pods are served.
type kind struct {
	version, name, list string
	// appendJSON and appendProtobuf append a pod as such an object, with that revision.
	appendJSON, appendProtobuf func(to []byte, p *journal.Pod, revision int64) ([]byte, error)
	// bare is the start of the JSON of an object that the items of a list don't have.
	bare []byte
}

var (
	pods = &kind{
		version: "v1", name: "Pod", list: "PodList",
		appendJSON: wire.AppendJSON, appendProtobuf: wire.AppendProtobuf,
		bare: []byte(`{"kind":"Pod","apiVersion":"v1",`),
	}
	partialMetadata = &kind{
		version: metav1.SchemeGroupVersion.String(), name: "PartialObjectMetadata", list: "PartialObjectMetadataList",
		appendJSON: wire.AppendMetadataJSON, appendProtobuf: wire.AppendMetadataProtobuf,
	}
)

// object encodes the pod as an object of the kind. It may reuse to.
func (f *form) object(to []byte, p *journal.Pod, revision int64) ([]byte, error) {
	if !f.protobuf {
		return f.kind.appendJSON(to[:0], p, revision)
	}
	raw, err := f.kind.appendProtobuf(to[:0], p, revision)
	if err != nil {
		return nil, err
	}
	return envelope(f.kind.version, f.kind.name, raw)
}

// bookmark encodes an object of the kind that has only metadata.
func (f *form) bookmark(meta *metav1.ObjectMeta) ([]byte, error) {
	mark := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: f.kind.name, APIVersion: f.kind.version}, ObjectMeta: *meta}
	if !f.protobuf {
		return json.Marshal(mark)
	}
	raw, err := mark.Marshal() // metadata is the first field of all kinds
	if err != nil {
		return nil, err
	}
	return envelope(f.kind.version, f.kind.name, raw)
}

// list encodes a list of objects of the kind.
func (f *form) list(p *page) ([]byte, error) {
	if f.protobuf {
		return f.kind.listProtobuf(p)
	}
	return f.kind.listJSON(p)
}

func (k *kind) listJSON(p *page) ([]byte, error) {
	meta, err := json.Marshal(p.meta())
	if err != nil {
		return nil, err
	}
	data := append([]byte(`{"kind":"`+k.list+`","apiVersion":"`+k.version+`","metadata":`), meta...)
	data = append(data, `,"items":[`...)
	for i, pod := range p.pods {
		if i > 0 {
			data = append(data, ',')
		}
		start := len(data)
		if data, err = k.appendJSON(data, pod, pod.Revision); err != nil {
			return nil, err
		}
		if k.bare != nil && bytes.HasPrefix(data[start:], k.bare) {
			data = slices.Delete(data, start+1, start+len(k.bare))
		}
	}
	return append(data, "]}\n"...), nil
}

// Field numbers of v1.PodList and metav1.PartialObjectMetadataList.
const (
	listMetadata = 1
	listItems    = 2
)

func (k *kind) listProtobuf(p *page) ([]byte, error) {
	listMeta := p.meta()
	meta, err := listMeta.Marshal()
	if err != nil {
		return nil, err
	}
	raw := protowire.AppendTag(nil, listMetadata, protowire.BytesType)
	raw = protowire.AppendBytes(raw, meta)
	var item []byte
	for _, pod := range p.pods {
		if item, err = k.appendProtobuf(item[:0], pod, pod.Revision); err != nil {
			return nil, err
		}
		raw = protowire.AppendTag(raw, listItems, protowire.BytesType)
		raw = protowire.AppendBytes(raw, item)
	}
	return envelope(k.version, k.list, raw)
}
