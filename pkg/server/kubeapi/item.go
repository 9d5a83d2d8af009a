package kubeapi

import (
	"encoding/json"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/podtable"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

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
	return podtable.Cells(&pod, time.Now())
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
		return podtable.NodeCells(object, time.Now())
	case *v1.Namespace:
		return podtable.NamespaceCells(object, time.Now())
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
