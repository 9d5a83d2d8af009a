package kubeapi

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is a kind of object as which a resource is served.
type kind struct {
	version, name, list string
	// whole is false if the objects have only metadata.
	whole bool
}

var partialMetadata = &kind{
	version: metav1.SchemeGroupVersion.String(), name: "PartialObjectMetadata", list: "PartialObjectMetadataList",
}

// object encodes the item as an object of the kind. It may reuse to.
func (f *form) object(to []byte, i item, revision int64) ([]byte, error) {
	raw, err := i.appendAs(to[:0], f.kind.whole, f.protobuf, revision)
	if err != nil || !f.protobuf {
		return raw, err
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
	// The items of a list of whole objects have no kind.
	kinded := []byte(`{"kind":"` + k.name + `","apiVersion":"` + k.version + `",`)
	for i, item := range p.items {
		if i > 0 {
			data = append(data, ',')
		}
		start := len(data)
		if data, err = item.appendAs(data, k.whole, false, item.version()); err != nil {
			return nil, err
		}
		if k.whole && bytes.HasPrefix(data[start:], kinded) {
			data = slices.Delete(data, start+1, start+len(kinded))
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
	var buffer []byte
	for _, item := range p.items {
		if buffer, err = item.appendAs(buffer[:0], k.whole, true, item.version()); err != nil {
			return nil, err
		}
		raw = protowire.AppendTag(raw, listItems, protowire.BytesType)
		raw = protowire.AppendBytes(raw, buffer)
	}
	return envelope(k.version, k.list, raw)
}
