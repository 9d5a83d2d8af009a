package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// Item is one pod of a manifest that may hold several.
type Item struct {
	// Namespace and Name are the manifest's own, without the node's name; both are
	// empty where they can't be read.
	Namespace, Name string
	// Pod is the pod, or nil where Err says what is wrong.
	Pod *v1.Pod
	Err error
}

// MaxItems is how many pods a PodList may have. 10 MiB have room for three million empty
// ones, which take half a minute and half a gigabyte to refuse one by one.
const MaxItems = 50_000

// DecodeURL returns the pods of what a manifest URL served: a Pod, or a PodList of
// MaxItems at most, in which each item is judged for itself. An item is decoded when the
// sequence comes to it. The URL is part of the pods' UIDs.
//
// The error, where there is one, is an [*Error], and concerns the whole. A PodList
// must have items, if only an empty list.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, tryDecodePodList.
func (d *Decoder) DecodeURL(url string, data []byte) (iter.Seq[Item], error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, refuse(ReasonEmpty, "it is empty; serve a PodList with an empty list of items to have no pods")
	}
	raw, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, refuse(ReasonNotYAML, "it is neither YAML nor JSON: %w", err)
	}
	var list struct {
		metav1.TypeMeta
		Items *rawItems
	}
	// What is no PodList, or a broken one, is left to the decoder to word.
	err = json.Unmarshal(raw, &list)
	if errors.Is(err, errTooManyItems) {
		return nil, errTooManyItems
	}
	if err != nil || list.Kind != "PodList" || list.APIVersion != "v1" {
		item := d.decodeItem(url, raw)
		if refused, ok := item.Err.(*Error); ok && refused.Reason == ReasonNotAPod { //nolint:errorlint // it is not wrapped
			return nil, refused
		}
		return func(yield func(Item) bool) { yield(item) }, nil
	}
	if list.Items == nil {
		return nil, refuse(ReasonInvalid, "items: Required value: a PodList without pods has an empty list of them")
	}
	return func(yield func(Item) bool) {
		for _, raw := range *list.Items {
			if !yield(d.decodeListItem(url, raw)) {
				return
			}
		}
	}, nil
}

// rawItems are the items of a PodList.
type rawItems []json.RawMessage

var errTooManyItems = refuse(ReasonTooLarge, "items: Too many: a PodList may have at most %d pods", MaxItems)

// UnmarshalJSON stops where there are too many.
func (r *rawItems) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.New("items: it is not a list")
	}
	*r = rawItems{}
	for decoder.More() {
		if len(*r) == MaxItems {
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

// decodeListItem decodes an item of a PodList, which needs no kind of its own.
func (d *Decoder) decodeListItem(url string, raw json.RawMessage) Item {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return Item{Err: refuse(ReasonNotAPod, "it is not an object, let alone a v1 Pod")}
	}
	object["apiVersion"], object["kind"] = json.RawMessage(`"v1"`), json.RawMessage(`"Pod"`)
	typed, err := json.Marshal(object)
	if err != nil {
		return Item{Err: refuse(ReasonInvalid, "decoding it: %w", err)}
	}
	return d.decodeItem(url, typed)
}

func (d *Decoder) decodeItem(url string, raw []byte) Item {
	internal, err := decodeJSON(raw)
	if err != nil {
		item := nameOf(raw)
		item.Err = err
		return item
	}
	item := Item{Namespace: cmp.Or(internal.Namespace, metav1.NamespaceDefault), Name: internal.Name}
	item.Pod, item.Err = d.finish(internal, origin{url: url})
	return item
}

// nameOf returns what a manifest that can't be decoded says that the pod is called, as
// far as that can be read.
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

// decodeJSON decodes and defaults a pod, and looks at nothing else.
func decodeJSON(data []byte) (*api.Pod, error) {
	obj, err := runtime.Decode(decoder, data)
	if err != nil {
		return nil, decodeError(err, data)
	}
	pod, ok := obj.(*api.Pod)
	if !ok {
		return nil, notAPod(data)
	}
	if pod.Name == "" {
		return nil, refuse(ReasonInvalid, "metadata.name: Required value: a pod needs a name")
	}
	return pod, nil
}

// String returns the item's name, for messages.
func (i *Item) String() string {
	if i.Name == "" {
		return "(no name)"
	}
	return fmt.Sprintf("%s/%s", i.Namespace, i.Name)
}
