package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func testNode(zone string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"zone": zone}, ResourceVersion: "77"},
		Status:     v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}}},
	}
}

// client-go gets nodes and namespaces, the same with JSON and with protobuf.
func TestNodesAndNamespaces(t *testing.T) {
	a := serve(t, journal.Options{Node: testNode("a")})
	a.change(config.ADD, "file", "web/x=1")
	a.change(config.ADD, "file", "db/y=1")
	a.journal.PutNamespaces([]*metav1.ObjectMeta{{Name: "web", Labels: map[string]string{"team": "blue"}, UID: "u"}})
	first := make(map[string]string)
	for form, client := range a.clientsets(t) {
		t.Run(form, func(t *testing.T) {
			nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			node, err := client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := testNode("a")
			want.ResourceVersion = fmt.Sprint(a.base)
			for _, got := range []*v1.Node{node, &nodes.Items[0]} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			first[form] = namespaces.String()
			var shown []string
			for i := range namespaces.Items {
				ns := &namespaces.Items[i]
				shown = append(shown, fmt.Sprint(ns.Name, ns.Labels, ns.UID, ns.Status.Phase))
			}
			if got, want := strings.Join(shown, " "), "dbmap[kubernetes.io/metadata.name:db]Active webmap[team:blue]uActive"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			for name, test := range map[string]struct {
				options metav1.ListOptions
				want    int
			}{
				"label":         {metav1.ListOptions{LabelSelector: "team=blue"}, 1},
				"name":          {metav1.ListOptions{FieldSelector: "metadata.name=db"}, 1},
				"phase":         {metav1.ListOptions{FieldSelector: "status.phase=Active"}, 2},
				"no such phase": {metav1.ListOptions{FieldSelector: "status.phase=Terminating"}, 0},
				"limit":         {metav1.ListOptions{Limit: 1}, 1},
			} {
				t.Run(name, func(t *testing.T) {
					got, err := client.CoreV1().Namespaces().List(t.Context(), test.options)
					if err != nil || len(got.Items) != test.want || (got.Continue == "") != (test.options.Limit == 0) {
						t.Errorf("%v, %v, want %d", got, err, test.want)
					}
				})
			}
			for _, err := range []error{
				errorOf(client.CoreV1().Nodes().Get(t.Context(), "other", metav1.GetOptions{})),
				errorOf(client.CoreV1().Namespaces().Get(t.Context(), "other", metav1.GetOptions{})),
				errorOf(client.CoreV1().Services("web").Get(t.Context(), "x", metav1.GetOptions{})),
			} {
				if !apierrors.IsNotFound(err) {
					t.Error(err)
				}
			}
			if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.foo=1"}); !apierrors.IsBadRequest(err) {
				t.Error(err)
			}
		})
	}
	if first[jsonType] != first[protobufType] {
		t.Errorf("JSON and protobuf differ:\n%s\n%s", first[jsonType], first[protobufType])
	}
}

// A metadata client gets the metadata of nodes and namespaces.
func TestMetadataOfObjects(t *testing.T) {
	a := serve(t, journal.Options{Node: testNode("a")})
	a.change(config.ADD, "file", "web/x=1")
	for resource, want := range map[string]string{
		"nodes":      fmt.Sprintf("node1 map[zone:a] %d", a.base),
		"namespaces": fmt.Sprintf("web map[kubernetes.io/metadata.name:web] %d", a.base+1),
	} {
		t.Run(resource, func(t *testing.T) {
			for form, client := range a.metadataClientsOf(t, resource) {
				list, err := client.List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != 1 {
					t.Fatalf("%s: %+v, %v", form, list, err)
				}
				one, err := client.Get(t.Context(), list.Items[0].Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				w, err := client.Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				event, _ := (<-w.ResultChan()).Object.(*metav1.PartialObjectMetadata)
				w.Stop()
				for _, got := range []*metav1.PartialObjectMetadata{&list.Items[0], one, event} {
					if shown := fmt.Sprint(got.Name, " ", got.Labels, " ", got.ResourceVersion); shown != want {
						t.Errorf("%s %s: got %s, want %s", form, resource, shown, want)
					}
				}
			}
		})
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A watch goes on where a list ends, with every format.
func TestObjectsAreWatched(t *testing.T) {
	a := serve(t, journal.Options{Node: testNode("a")})
	a.change(config.ADD, "file", "web/x=1")
	for form, client := range a.clientsets(t) {
		list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		namespaces, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(w watch.Interface, want string) {
			t.Helper()
			event := <-w.ResultChan()
			object, ok := event.Object.(metav1.Object)
			if !ok {
				t.Fatalf("%s: %+v, want %s", form, event, want)
			}
			got := fmt.Sprintf("%s %s%s", event.Type, object.GetName(), object.GetLabels()["zone"])
			if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
				got += "end"
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", form, got, want)
			}
		}
		expect(nodes, "ADDED node1a")
		expect(nodes, "BOOKMARK end")
		a.change(config.ADD, "file", "db/y=1")
		expect(namespaces, "ADDED db")
		a.change(config.REMOVE, "file", "db/y=1")
		expect(namespaces, "DELETED db")
		a.journal.PutNode(testNode("b"))
		expect(nodes, "MODIFIED node1b")
		a.journal.PutNode(testNode("a"))
		namespaces.Stop()
		nodes.Stop()
	}
	code, body := a.get(t, fmt.Sprintf("/api/v1/nodes?watch=true&resourceVersion=%d", a.base-1), "")
	if code != http.StatusOK || !strings.Contains(body, `"type":"ERROR"`) || !strings.Contains(body, `"code":410`) {
		t.Errorf("a watch from an earlier instance: %d %s", code, body)
	}
}

// A client sees the namespaces in which it sees a pod.
func TestNamespacesThatAClientSees(t *testing.T) {
	a := serveWith(t, journal.Options{Node: testNode("a")}, func(served *API) {
		served.Gate.SetPolicy(access.NewPolicy([]access.Rule{{
			LabelSelector: labels.SelectorFromSet(labels.Set{"version": "public"}), View: access.Full,
		}}))
	})
	a.change(config.ADD, "file", "web/x=public")
	a.change(config.ADD, "file", "db/y=1")
	for path, want := range map[string]int{"/api/v1/namespaces/web": 200, "/api/v1/namespaces/db": 404, "/api/v1/nodes/node1": 200} {
		t.Run(path, func(t *testing.T) {
			if code, body := a.get(t, path, ""); code != want {
				t.Errorf("%s: %d %s", path, code, body)
			}
		})
	}
	_, body := a.get(t, "/api/v1/namespaces", "")
	var list v1.NamespaceList
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || list.Items[0].Name != "web" || list.Items[0].Kind != "" {
		t.Errorf("%s: %v", body, err)
	}
}
