package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	// yamlType is served only for one object.
	yamlType = "application/yaml"
)

// form is the format of an answer.
type form struct {
	contentType string
	protobuf    bool
	// yaml converts the JSON of one object.
	yaml bool
	// kind is the kind as which objects are served. requested is the kind that the request
	// names, or empty.
	kind      *kind
	requested string
	// table is true if objects are served as rows of a table with the columns. include is the
	// part of the object that each row has.
	table   bool
	columns []metav1.TableColumnDefinition
	include metav1.IncludeObjectPolicy
}

// negotiate returns the format with the greatest weight that the request accepts and this server has; nil
// if there is none. whole is the kind of the resource.
func negotiate(r *http.Request, whole *kind) *form {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		accept = jsonType
	}
	if accept == yamlType && r.PathValue("name") != "" {
		return &form{contentType: yamlType, yaml: true, kind: whole}
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if f := formOf(&clause, whole); f != nil {
			f.include = metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
			return f
		}
	}
	return nil
}

// formOf returns the format that a clause of the header Accept requests, or nil.
func formOf(clause *goautoneg.Accept, whole *kind) *form {
	f := &form{kind: whole, requested: clause.Params["as"]}
	switch clause.Type + "/" + clause.SubType {
	case jsonType, "application/*", "*/*":
		f.contentType = jsonType
	case protobufType:
		f.contentType, f.protobuf = protobufType, true
	default:
		return nil
	}
	version := schema.GroupVersion{Group: clause.Params["g"], Version: clause.Params["v"]}
	switch {
	case f.requested == "" && version.Empty():
		return f
	case version != metav1.SchemeGroupVersion:
		return nil
	case f.requested == "Table" && !f.protobuf:
		f.table = true
		return f
	case f.requested == partialMetadata.name, f.requested == partialMetadata.list:
		f.kind = partialMetadata
		return f
	}
	return nil
}

// fits returns a status if the requested kind is a list and the object is not, or the reverse.
//
// apiserver: pkg/endpoints/handlers asPartialObjectMetadata, asPartialObjectMetadataList.
func (f *form) fits(list bool) *metav1.Status {
	var problem string
	switch {
	case list && f.requested == partialMetadata.name:
		problem = "a list"
	case !list && f.requested == partialMetadata.list:
		problem = "not a list"
	default:
		return nil
	}
	return apistatus.Status(http.StatusNotAcceptable,
		fmt.Sprintf("you requested %s, but the requested object is %s", f.requested, problem))
}

// check validates the parameters of the format.
func (f *form) check() error {
	switch f.include {
	case "", metav1.IncludeMetadata, metav1.IncludeObject, metav1.IncludeNone:
		return nil
	}
	if !f.table {
		return nil
	}
	return fmt.Errorf("expected Metadata, Object or None, got %q", f.include)
}

// magic is the start of each protobuf object of Kubernetes.
var magic = []byte("k8s\x00")

// envelope wraps a protobuf message in a message that has its kind.
//
// apimachinery: pkg/runtime/serializer/protobuf.
func envelope(version, kind string, raw []byte) ([]byte, error) {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	data := make([]byte, len(magic)+unknown.Size())
	copy(data, magic)
	if _, err := unknown.MarshalToSizedBuffer(data[len(magic):]); err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", kind, err)
	}
	return data, nil
}

// status encodes a status in this format.
func (f *form) status(s *metav1.Status) ([]byte, error) {
	if !f.protobuf {
		return json.Marshal(s)
	}
	raw, err := s.Marshal()
	if err != nil {
		return nil, err
	}
	return envelope("v1", "Status", raw)
}

// item is one version of an object of any resource.
type item interface {
	name() (namespace, name string)
	// version is the revision of the version.
	version() int64
	// appendAs appends the object in a format, whole or only its metadata. The revision is
	// its resourceVersion.
	appendAs(to []byte, whole, protobuf bool, revision int64) ([]byte, error)
	// cells are the cells of its row in a table.
	cells() []any
}

// podItem is a pod. Each of its formats is encoded once for all clients.
type podItem struct{ *journal.Pod }

func (p podItem) name() (namespace, name string) { return p.Object.Namespace, p.Object.Name }
func (p podItem) version() int64                 { return p.Revision }

func (p podItem) appendAs(to []byte, whole, protobuf bool, revision int64) ([]byte, error) {
	switch {
	case whole && protobuf:
		return wire.AppendProtobuf(to, p.Pod, revision)
	case whole:
		return wire.AppendJSON(to, p.Pod, revision)
	case protobuf:
		return wire.AppendMetadataProtobuf(to, p.Pod, revision)
	}
	return wire.AppendMetadataJSON(to, p.Pod, revision)
}

func (p podItem) cells() []any {
	pod := *p.Object
	pod.CreationTimestamp = wire.Created(p.Pod)
	return podfields.Cells(&pod, time.Now())
}

// objectItem is a node or a namespace. They are few, and change rarely.
type objectItem struct{ *journal.Object }

func (o objectItem) name() (namespace, name string) { return "", o.Object.Object.GetName() }
func (o objectItem) version() int64                 { return o.Revision }

func (o objectItem) appendAs(to []byte, whole, protobuf bool, revision int64) ([]byte, error) {
	object := versionOf(o.Object.Object, strconv.FormatInt(revision, 10))
	if !whole {
		object = metadataOf(object)
	}
	encode := func() ([]byte, error) { return json.Marshal(object) }
	if protobuf {
		encode = object.Marshal
	}
	data, err := encode()
	return append(to, data...), err
}

func (o objectItem) cells() []any {
	switch object := o.Object.Object.(type) {
	case *v1.Node:
		return podfields.NodeCells(object, time.Now())
	case *v1.Namespace:
		return podfields.NamespaceCells(object, time.Now())
	}
	return nil
}

// encodable is an object of the API.
type encodable interface {
	metav1.Object
	Marshal() ([]byte, error)
}

// versionOf returns the object with a resourceVersion, and with its kind for JSON.
func versionOf(object metav1.Object, version string) encodable {
	switch object := object.(type) {
	case *v1.Node:
		node := *object
		node.TypeMeta, node.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, version
		return &node
	case *v1.Namespace:
		namespace := *object
		namespace.TypeMeta, namespace.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, version
		return &namespace
	}
	return nil // there are no others
}

func metadataOf(object encodable) *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: partialMetadata.name, APIVersion: partialMetadata.version},
	}
	switch object := object.(type) {
	case *v1.Node:
		partial.ObjectMeta = object.ObjectMeta
	case *v1.Namespace:
		partial.ObjectMeta = object.ObjectMeta
	}
	return partial
}
