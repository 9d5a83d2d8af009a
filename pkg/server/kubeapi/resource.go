package kubeapi

import (
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/journal"
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
	// list returns the selected objects at a revision, by namespace and name, and the
	// revision. 0 means the newest revision. The error is a CompactedError.
	list func(h *handler, r *http.Request, o *options, at int64) ([]item, int64, error)
	// get returns an object, or nil.
	get func(h *handler, r *http.Request, name types.NamespacedName) item
	// watch starts a watch.
	watch func(h *handler, r *http.Request, o *options) cursor
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
			Name: "events", SingularName: "event", Namespaced: true, Kind: "Event", Verbs: readVerbs, ShortNames: []string{"ev"},
		},
		kind: coreKind("Event"), columns: eventColumns,
		fields: []string{
			"metadata.name", "metadata.namespace", "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
			"involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
			"reason", "reportingComponent", "source", "type",
		},
		list: noObjects, get: noObject, watch: watchNothing,
	},
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
	{
		APIResource: metav1.APIResource{
			Name: "services", SingularName: "service", Namespaced: true, Kind: "Service", Verbs: readVerbs, ShortNames: []string{"svc"},
			Categories: []string{"all"},
		},
		kind: coreKind("Service"), columns: serviceColumns,
		fields: []string{"metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"},
		list:   noObjects, get: noObject, watch: watchNothing,
	},
}

// paths returns the paths of the resource: those of lists and watches, and that of one
// object.
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
		return podfields.ParseAPI(s)
	}
	return podfields.ParseOnly(s, res.fields)
}

func listPods(h *handler, _ *http.Request, o *options, at int64) ([]item, int64, error) {
	pods, revision, err := h.opts.Journal.Named(at)
	var items []item
	for _, pod := range pods {
		if o.selector.Matches(pod) {
			items = append(items, podItem{pod})
		}
	}
	return items, revision, err
}

func getPod(h *handler, _ *http.Request, name types.NamespacedName) item {
	if pod := h.opts.Journal.ByName(name); pod != nil {
		return podItem{pod}
	}
	return nil
}

func noObjects(h *handler, _ *http.Request, _ *options, at int64) ([]item, int64, error) {
	_, revision, err := h.opts.Journal.Objects(journal.Nodes, at) // for the revision
	return nil, revision, err
}

func noObject(*handler, *http.Request, types.NamespacedName) item { return nil }

func listObjects(kind journal.Kind) func(*handler, *http.Request, *options, int64) ([]item, int64, error) {
	return func(h *handler, r *http.Request, o *options, at int64) ([]item, int64, error) {
		// A watch sends a set's events with the last revisions that cause them, so a list within
		// a set would not fit to it.
		objects, revision, err := h.opts.Journal.Objects(kind, h.opts.Journal.Boundary(at))
		if err != nil {
			return nil, 0, err
		}
		visible, err := h.visible(r, kind, revision)
		if err != nil {
			return nil, 0, err
		}
		var items []item
		for _, object := range objects {
			if visible(object) && o.selects(object) {
				items = append(items, objectItem{object})
			}
		}
		return items, revision, nil
	}
}

func getObject(kind journal.Kind) func(*handler, *http.Request, types.NamespacedName) item {
	return func(h *handler, r *http.Request, name types.NamespacedName) item {
		object := h.opts.Journal.Object(kind, name.Name)
		visible, err := h.visible(r, kind, 0)
		if object == nil || err != nil || !visible(object) {
			return nil
		}
		return objectItem{object}
	}
}

// visible returns which objects of a kind the client of a request sees: the namespaces in
// which it sees a pod, at a revision, and all nodes.
func (h *handler) visible(r *http.Request, kind journal.Kind, at int64) (func(*journal.Object) bool, error) {
	sees := h.opts.sees(r)
	if sees == nil || kind != journal.Namespaces {
		return func(*journal.Object) bool { return true }, nil
	}
	pods, _, err := h.opts.Journal.Named(at)
	namespaces := make(map[string]bool)
	for _, pod := range pods {
		if sees(pod) {
			namespaces[pod.Object.Namespace] = true
		}
	}
	return func(o *journal.Object) bool { return namespaces[o.Object.GetName()] }, err
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

// resourceOf returns the resource of the name, or nil.
func resourceOf(name string) *resource {
	if i := slices.IndexFunc(resources, func(res *resource) bool { return res.Name == name }); i >= 0 {
		return resources[i]
	}
	return nil
}
