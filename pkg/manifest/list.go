package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/located"
)

// Item is one pod of a manifest.
type Item struct {
	// Namespace and Name are from the manifest, without the node name. Both are empty if
	// they can't be read.
	Namespace, Name string
	// Pod is the pod, or nil if Err is set.
	Pod *v1.Pod
	Err error
	// Warnings are faults that the kubelet ignores.
	Warnings []Fault
}

// maxItems is the maximum number of pods in a PodList. 10 MiB have room for three million
// empty ones. Refusing those one by one takes half a minute and half a gigabyte.
const maxItems = 50_000

// DecodeURL returns the pods of the answer of a manifest URL: a Pod, or a PodList of at
// most maxItems. Each item of a list has its own verdict. An item is decoded when the
// sequence reaches it. The URL is part of the pods' UIDs.
//
// The error, if there is one, is an [*Error] and applies to the whole answer. A PodList
// must have items, which may be an empty list.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, tryDecodePodList.
func (d *Decoder) DecodeURL(url string, data []byte) (iter.Seq[Item], error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, refuse(ReasonEmpty, "the answer is empty: to remove all pods, serve a PodList with an empty list of items")
	}
	t := newText("", data)
	raw, duplicates, err := t.toJSON()
	if err != nil {
		return nil, err
	}
	var list struct {
		metav1.TypeMeta
		Items *rawItems
	}
	// If this is not a valid PodList, the decoder returns the error.
	err = json.Unmarshal(raw, &list)
	if errors.Is(err, errTooManyItems) {
		return nil, errTooManyItems
	}
	if err != nil || list.Kind != "PodList" || list.APIVersion != "v1" {
		item := d.decodeItem(t, origin{url: url}, raw, duplicates)
		if refused, ok := item.Err.(*Error); ok && (refused.Reason == ReasonNotAPod || refused.Reason == ReasonNotYAML) { //nolint:errorlint // it is not wrapped
			return nil, refused
		}
		return func(yield func(Item) bool) { yield(item) }, nil
	}
	if list.Items == nil {
		return nil, t.refuse(ReasonInvalid, t.At("items", "Required value: for no pods, use an empty list"))
	}
	return func(yield func(Item) bool) {
		for i, raw := range *list.Items {
			if !yield(d.decodeListItem(t.item(i), url, raw, duplicates)) {
				return
			}
		}
	}, nil
}

// rawItems are the items of a PodList.
type rawItems []json.RawMessage

var errTooManyItems = refuse(ReasonTooLarge, "items: Too many: a PodList may have at most %d pods", maxItems)

// UnmarshalJSON stops if there are too many.
func (r *rawItems) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.New("items: expected list")
	}
	*r = rawItems{}
	for decoder.More() {
		if len(*r) == maxItems {
			return errTooManyItems
		}
		var item json.RawMessage
		if err := decoder.Decode(&item); err != nil {
			return err
		}
		*r = append(*r, item)
	}
	return nil
}

// decodeListItem decodes an item of a PodList, which may have no kind.
func (d *Decoder) decodeListItem(t *text, url string, raw json.RawMessage, duplicates located.Findings) Item {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return Item{Err: t.refuse(ReasonNotAPod, t.At("", "not a Kubernetes object: expected a v1 Pod"))}
	}
	var own metav1.TypeMeta
	_ = json.Unmarshal(object["kind"], &own.Kind) // what is no text is ignored
	_ = json.Unmarshal(object["apiVersion"], &own.APIVersion)
	object["apiVersion"], object["kind"] = json.RawMessage(`"v1"`), json.RawMessage(`"Pod"`)
	typed, err := json.Marshal(object)
	if err != nil {
		return Item{Err: t.refuse(ReasonInvalid, t.At("", "can't be decoded: %v", err))}
	}
	return d.decodeItem(t, origin{url: url, isItem: true, kind: own}, typed, duplicates)
}

// decodeItem decodes the JSON of one pod.
func (d *Decoder) decodeItem(t *text, from origin, raw []byte, duplicates located.Findings) (item Item) {
	internal, found, err := t.decodePod(raw)
	if err == nil {
		item = Item{Namespace: cmp.Or(internal.Namespace, metav1.NamespaceDefault), Name: internal.Name}
		item.Pod, item.Err = d.finish(t, internal, raw, from, &found)
	} else {
		item = nameOf(raw)
		item.Err = err
	}
	for _, f := range duplicates.Faults() {
		if field, ok := strings.CutPrefix(f.Field, t.Prefix); ok {
			f.Field = strings.TrimPrefix(field, ".")
			found.Add(func() Fault { return f })
		}
	}
	item.Warnings = found.Bounded()
	return item
}

// nameOf returns the name in a manifest that can't be decoded, if it can be read.
func nameOf(raw []byte) Item {
	var named struct {
		Metadata struct {
			Name, Namespace string
		}
	}
	if json.Unmarshal(raw, &named) != nil || named.Metadata.Name == "" {
		return Item{}
	}
	return Item{Namespace: cmp.Or(named.Metadata.Namespace, metav1.NamespaceDefault), Name: named.Metadata.Name}
}
