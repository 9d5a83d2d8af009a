package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

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

// DecodeURL returns the pods of what a manifest URL served: a Pod, or a PodList in
// which each item is judged for itself. The URL is part of the pods' UIDs.
//
// The error, where there is one, is an [*Error], and concerns the whole. A PodList
// must have items, if only an empty list.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, tryDecodePodList.
func (d *Decoder) DecodeURL(url string, data []byte) ([]Item, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, refuse(ReasonEmpty, "it is empty; serve a PodList with an empty list of items to have no pods")
	}
	raw, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, refuse(ReasonNotYAML, "it is neither YAML nor JSON: %w", err)
	}
	var list struct {
		metav1.TypeMeta
		Items *[]json.RawMessage
	}
	// What is no PodList, or a broken one, is left to the decoder to word.
	if err := json.Unmarshal(raw, &list); err != nil || list.Kind != "PodList" || list.APIVersion != "v1" {
		item := d.decodeItem(url, raw)
		if refused, ok := item.Err.(*Error); ok && refused.Reason == ReasonNotAPod { //nolint:errorlint // it is not wrapped
			return nil, refused
		}
		return []Item{item}, nil
	}
	if list.Items == nil {
		return nil, refuse(ReasonInvalid, "items: Required value: a PodList without pods has an empty list of them")
	}
	items := make([]Item, len(*list.Items))
	for i, raw := range *list.Items {
		items[i] = d.decodeListItem(url, raw)
	}
	return items, nil
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
	item := nameOf(raw)
	internal, err := decodeJSON(raw)
	if err == nil {
		item.Pod, err = d.finish(internal, origin{url: url})
	}
	item.Err = err
	return item
}

// nameOf returns what the manifest says that the pod is called, as far as that can
// be read.
func nameOf(raw []byte) Item {
	var named struct {
		Metadata struct {
			Name, Namespace string
		}
	}
	if json.Unmarshal(raw, &named) != nil || named.Metadata.Name == "" {
		return Item{}
	}
	item := Item{Namespace: named.Metadata.Namespace, Name: named.Metadata.Name}
	if item.Namespace == "" {
		item.Namespace = metav1.NamespaceDefault
	}
	return item
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
