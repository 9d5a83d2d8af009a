package server

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func TestMetadataOnTheStream(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.journal.PutNamespaces([]*metav1.ObjectMeta{{Name: "default", Labels: map[string]string{"team": "a"}}})
	d.journal.PutNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Annotations: map[string]string{"zone": "b\xff"}}}) // not UTF-8
	web := podWith("web", "1")
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{web}})
	for name, updates := range map[string]func() (namespace, node *v1alpha1.Metadata){
		"HTTP": func() (namespace, node *v1alpha1.Metadata) {
			opts := client.Options{NamespaceLabels: true, NodeLabels: true}
			for u, err := range client.New(d.socket).Updates(t.Context(), opts) {
				switch {
				case err != nil:
					t.Fatal(err)
				case u.Op == v1alpha1.OpMetadata && u.Node != nil:
					node = u.Node
				case u.Op == v1alpha1.OpMetadata:
					namespace = u.Namespaces["default"]
				default:
					return namespace, node
				}
			}
			return nil, nil
		},
		"gRPC": func() (namespace, node *v1alpha1.Metadata) {
			request := &podconfigd.WatchRequest{NamespaceLabels: true, NodeLabels: true}
			stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Watch(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			of := func(m *podconfigd.Metadata) *v1alpha1.Metadata {
				return &v1alpha1.Metadata{Labels: m.GetLabels(), Annotations: m.GetAnnotations()}
			}
			for {
				message, err := stream.Recv()
				switch {
				case err != nil:
					t.Fatal(err)
				case message.GetOp() != podconfigd.Operation_OPERATION_METADATA:
					return namespace, node
				case message.GetNode() != nil:
					node = of(message.GetNode())
				default:
					namespace = of(message.GetNamespaces()["default"])
				}
			}
		},
	} {
		if namespace, node := updates(); namespace.Labels["team"] != "a" || node.Annotations["zone"] != "b\uFFFD" {
			t.Errorf("%s: got %+v, %+v", name, namespace, node)
		}
	}
	d.read(t, "").expect(t, v1alpha1.OpAdd, "web") // without metadata
}
