package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// Item is one pod of a manifest.
type Item struct {
	// Namespace and Name are from the manifest, without the node name. Both are empty if
	// they can't be read.
	Namespace, Name string
	// PodName is the name of the pod as the kubelet gives it: Name and the node name.
	PodName string
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
// The error, if there is one, is an [*Error] and applies to the whole answer. A PodList must have
// items, which may be an empty list. If further YAML documents are ignored, the first item has a
// warning.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, tryDecodePodList.
func (d *Decoder) DecodeURL(url string, data []byte) (items iter.Seq[Item], err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, refuse(ReasonEmpty, "the answer is empty: to remove all pods, serve a PodList with an empty list of items")
	}
	done := alone(data)
	defer done()
	t := newText("", data)
	defer func() {
		if refused := t.panicked(recover()); refused != nil {
			items, err = nil, refused
		}
	}()
	raw, duplicates, err := t.toJSON()
	if err != nil {
		return nil, err
	}
	later := laterDocuments(data, "serve a PodList")
	for i := range later {
		later[i].Line = 0 // an answer has no lines
	}
	// The kubelet ignores the case of the keys kind and apiVersion, and of no others.
	var meta metav1.TypeMeta
	var list struct {
		Items *rawItems `json:"items"`
	}
	// If this is not a valid PodList, the decoder returns the error.
	notTyped := json.Unmarshal(raw, &meta)
	strict, err := kjson.UnmarshalStrict(raw, &list, kjson.DisallowDuplicateFields)
	if errors.Is(err, errTooManyItems) {
		return nil, errTooManyItems
	}
	if notTyped != nil || err != nil || meta.Kind != "PodList" || meta.APIVersion != "v1" {
		item := d.decodeItem(t, origin{url: url}, raw, duplicates)
		if refused, ok := item.Err.(*Error); ok && (refused.Reason == ReasonNotAPod || refused.Reason == ReasonNotYAML) { //nolint:errorlint // it is not wrapped
			return nil, refused
		}
		item.Warnings = append(item.Warnings, later...)
		return func(yield func(Item) bool) { yield(item) }, nil
	}
	if err := t.itemsTwice(strict, duplicates); err != nil {
		return nil, err
	}
	if list.Items == nil {
		return nil, t.refuse(ReasonInvalid, t.At("items", "Required value: for no pods, use an empty list"))
	}
	return func(yield func(Item) bool) {
		for i, raw := range *list.Items {
			item := d.decodeListItem(t.item(i), url, raw, duplicates)
			if i == 0 {
				item.Warnings = append(item.Warnings, later...)
			}
			if !yield(item) {
				return
			}
		}
	}, nil
}

// itemsTwice returns an error if a list has its items twice: strict has the duplicates of JSON. The conversion of YAML to JSON keeps
// only the last ones.
func (t *text) itemsTwice(strict []error, duplicates yamlfault.Findings) error {
	twice := slices.ContainsFunc(strict, func(err error) bool {
		fault, ok := errors.AsType[kjson.FieldError](err)
		return ok && fault.FieldPath() == "items"
	})
	line := 0
	if len(duplicates.Faults()) > 0 {
		line = t.DuplicateLine("items")
	}
	if !twice && line == 0 {
		return nil
	}
	return t.refuse(ReasonInvalid, Fault{Line: line, Field: "items", Message: "duplicate key: one of the lists hides the other"})
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

// typed returns the object with apiVersion v1 and kind Pod, and the apiVersion and kind that it had.
// All other keys stay, also duplicate keys.
func typed(object []byte) (pod []byte, own metav1.TypeMeta, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, own, false
	}
	pod = append(make([]byte, 0, len(object)+len(`"apiVersion":"v1","kind":"Pod"}`)+1), '{')
	for decoder.More() {
		from := decoder.InputOffset()
		token, err := decoder.Token()
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return nil, own, false
		}
		switch token {
		case "apiVersion":
			_ = json.Unmarshal(value, &own.APIVersion) // what is no text is ignored
		case "kind":
			_ = json.Unmarshal(value, &own.Kind)
		default:
			member := bytes.TrimLeft(object[from:decoder.InputOffset()], ", \t\r\n")
			pod = append(append(pod, member...), ',')
		}
	}
	return append(pod, `"apiVersion":"v1","kind":"Pod"}`...), own, true
}

// decodeListItem decodes an item of a PodList, which may have no kind.
func (d *Decoder) decodeListItem(t *text, url string, raw json.RawMessage, duplicates yamlfault.Findings) Item {
	pod, own, ok := typed(raw)
	if !ok {
		return Item{Err: t.refuse(ReasonNotAPod, t.At("", "not a Kubernetes object: expected a v1 Pod"))}
	}
	item := d.decodeItem(t, origin{url: url, isItem: true, kind: own}, pod, duplicates)
	item.Warnings = append(item.Warnings, t.kindWarning(own)...)
	return item
}

// decodeItem decodes the JSON of one pod.
func (d *Decoder) decodeItem(t *text, from origin, raw []byte, duplicates yamlfault.Findings) (item Item) {
	defer func() {
		if refused := t.panicked(recover()); refused != nil {
			item = Item{Err: refused}
		}
	}()
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
	if item.Name != "" {
		item.PodName = d.podName(item.Name)
	}
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
