package kubeapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// resource is a resource of the API.
type resource struct {
	metav1.APIResource

	// kind is the kind of its objects.
	kind    *kind
	columns []metav1.TableColumnDefinition
	// fields are the fields of field selectors.
	//
	// apiserver: k8s.io/kubernetes/pkg/apis/core/v1 AddFieldLabelConversionsFor….
	fields []string
	// list returns the selected objects at a revision, by namespace and name, and the revision. 0 means
	// the newest revision. The error is a CompactedError, or from Scope.Err.
	list func(o *options, at int64) ([]item, int64, error)
	// get returns an object, or nil.
	get func(scope *view.Scope, name types.NamespacedName) item
	// watch starts a watch.
	watch func(a *API, r *http.Request, o *options) *view.Cursor
}

// readVerbs are the verbs that are allowed for all resources.
var readVerbs = []string{"get", "list", "watch"}

func coreKind(name string) *kind {
	return &kind{version: "v1", name: name, list: name + "List", whole: true}
}

// resources are all resources, by name.
var resources = []*resource{
	{
		APIResource: metav1.APIResource{
			Name: "namespaces", SingularName: "namespace", Kind: "Namespace", Verbs: readVerbs, ShortNames: []string{"ns"},
		},
		kind: coreKind("Namespace"), columns: namespaceColumns, fields: []string{"metadata.name", "status.phase"},
		list: listObjects(journal.Namespaces), get: getObject(journal.Namespaces), watch: watchObjects(journal.Namespaces),
	},
	{
		APIResource: metav1.APIResource{
			Name: "nodes", SingularName: "node", Kind: "Node", Verbs: readVerbs, ShortNames: []string{"no"},
		},
		kind: coreKind("Node"), columns: nodeColumns, fields: []string{"metadata.name", "spec.unschedulable"},
		list: listObjects(journal.Nodes), get: getObject(journal.Nodes), watch: watchObjects(journal.Nodes),
	},
	{
		APIResource: metav1.APIResource{
			Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: readVerbs, ShortNames: []string{"po"},
			Categories: []string{"all"},
		},
		kind: coreKind("Pod"), columns: podColumns,
		list: listPods, get: getPod, watch: watchPods,
	},
}

// paths returns the paths of the resource: the paths of lists and watches, and the path of one object.
func (res *resource) paths() (all []string, one string) {
	if res.Namespaced {
		in := "/api/v1/namespaces/{namespace}/" + res.Name
		return []string{"/api/v1/" + res.Name, in}, in + "/{name}"
	}
	return []string{"/api/v1/" + res.Name}, "/api/v1/" + res.Name + "/{name}"
}

// parseFields parses a field selector.
func (res *resource) parseFields(s string) (fields.Selector, error) {
	if res.fields == nil {
		return podfields.ParseAPISelector(s)
	}
	return podfields.ParseSelectorOf(s, res.fields)
}

func listPods(o *options, at int64) ([]item, int64, error) {
	pods, revision, err := o.scope.Named(at, o.selector)
	items := make([]item, len(pods))
	for i, pod := range pods {
		items[i] = podItem{pod}
	}
	return items, revision, err
}

func getPod(scope *view.Scope, name types.NamespacedName) item {
	if pod := scope.WithName(name); pod != nil {
		return podItem{pod}
	}
	return nil
}

func listObjects(kind journal.Kind) func(*options, int64) ([]item, int64, error) {
	return func(o *options, at int64) ([]item, int64, error) {
		objects, revision, err := o.scope.Objects(kind, at)
		var items []item
		for _, object := range objects {
			if o.selects(object) {
				items = append(items, objectItem{object})
			}
		}
		return items, revision, err
	}
}

func getObject(kind journal.Kind) func(*view.Scope, types.NamespacedName) item {
	return func(scope *view.Scope, name types.NamespacedName) item {
		if object := scope.Object(kind, name.Name); object != nil {
			return objectItem{object}
		}
		return nil
	}
}

// selects reports whether the selectors of the request select the object.
func (o *options) selects(object *journal.Object) bool {
	return (o.selector.Labels == nil || o.selector.Labels.Matches(labels.Set(object.Object.GetLabels()))) &&
		(o.selector.Fields == nil || o.selector.Fields.Matches(fieldsOf(object.Object)))
}

func fieldsOf(object metav1.Object) fields.Set {
	set := fields.Set{"metadata.name": object.GetName()}
	switch object := object.(type) {
	case *v1.Node:
		set["spec.unschedulable"] = map[bool]string{true: "true", false: "false"}[object.Spec.Unschedulable]
	case *v1.Namespace:
		set["status.phase"] = string(object.Status.Phase)
	}
	return set
}

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
