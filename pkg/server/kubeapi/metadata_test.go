package kubeapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// metadataClients returns metadata clients of client-go, one for JSON and one for
// protobuf.
func (a *api) metadataClients(t *testing.T) map[string]metadata.ResourceInterface {
	t.Helper()
	return a.metadataClientsOf(t, "pods")
}

func (a *api) metadataClientsOf(t *testing.T, resource string) map[string]metadata.ResourceInterface {
	t.Helper()
	clients := make(map[string]metadata.ResourceInterface)
	for _, form := range []string{jsonType, protobufType} {
		client, err := metadata.NewForConfigAndClient(&rest.Config{Host: a.url, QPS: -1}, &http.Client{Transport: accepts{form, a.http.Transport}})
		if err != nil {
			t.Fatal(err)
		}
		clients[form] = client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource})
	}
	return clients
}

// accepts reduces the accepted media types of a request to one.
type accepts struct {
	mediaType string
	next      http.RoundTripper
}

func (a accepts) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for clause := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if strings.HasPrefix(clause, a.mediaType+";as=") {
			r.Header.Set("Accept", clause)
		}
	}
	return a.next.RoundTrip(r)
}

// A metadata client gets the metadata of the pods in lists, gets and watches.
func TestMetadata(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	seen := podOf("file", "a", "y", "1")
	seen.Annotations = map[string]string{config.ConfigFirstSeenAnnotationKey: "2026-05-04T03:02:01.5Z"}
	a.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{seen}})

	whole := a.clientsets(t)[jsonType].CoreV1().Pods("")
	wholeList, err := whole.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events := make(map[string]watch.Interface)
	for form, client := range a.metadataClients(t) {
		list, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if list.ResourceVersion != wholeList.ResourceVersion || len(list.Items) != 2 {
			t.Errorf("%s: got %+v", form, list)
		}
		for i := range list.Items {
			if diff := cmp.Diff(wholeList.Items[i].ObjectMeta, list.Items[i].ObjectMeta); diff != "" {
				t.Errorf("%s: whole (-) and alone (+) differ: %s", form, diff)
			}
		}
		first, err := client.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil || len(first.Items) != 1 || first.Continue == "" || *first.RemainingItemCount != 1 {
			t.Errorf("%s: first of two: %+v, %v", form, first, err)
		}
		one, err := client.(metadata.Getter).Namespace("a").Get(t.Context(), "y", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if diff := cmp.Diff(wholeList.Items[1].ObjectMeta, one.ObjectMeta); diff != "" || one.CreationTimestamp.IsZero() {
			t.Errorf("%s: whole (-) and alone (+) differ: %s", form, diff)
		}
		if events[form], err = client.Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		}); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		t.Cleanup(events[form].Stop)
	}
	got := make(map[string][]watch.Event)
	for range 3 {
		for form, w := range events {
			got[form] = append(got[form], <-w.ResultChan())
		}
	}
	a.change(config.UPDATE, "file", "a/x=2")
	a.change(config.REMOVE, "file", "a/x=2")
	var types []watch.EventType
	for range 2 {
		for form, w := range events {
			got[form] = append(got[form], <-w.ResultChan())
		}
	}
	for _, event := range got[protobufType] {
		types = append(types, event.Type)
		if _, ok := event.Object.(*metav1.PartialObjectMetadata); !ok {
			t.Errorf("event of a %T: %+v", event.Object, event.Object)
		}
	}
	if diff := cmp.Diff([]watch.EventType{watch.Added, watch.Added, watch.Bookmark, watch.Modified, watch.Deleted}, types); diff != "" {
		t.Error(diff)
	}
	for i := range got[protobufType] { // protobuf has the kind outside of the object
		got[protobufType][i].Object.(*metav1.PartialObjectMetadata).TypeMeta = got[jsonType][i].Object.(*metav1.PartialObjectMetadata).TypeMeta
	}
	if diff := cmp.Diff(got[jsonType], got[protobufType]); diff != "" {
		t.Errorf("JSON (-) and protobuf (+) differ: %s", diff)
	}
}

// Metadata are encoded without the rest, once for all subscribers.
func TestMetadataAreSmall(t *testing.T) {
	a := serve(t, journal.Options{})
	pod := podOf("file", "a", "x", "1")
	for range 10 {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "c", Image: strings.Repeat("x", 1000)})
	}
	a.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{pod}})
	for _, form := range []string{jsonType, protobufType} {
		label := map[string]string{jsonType: "metadata-json", protobufType: "metadata-protobuf"}[form]
		before := testutil.ToFloat64(wire.Encodes().WithLabelValues(label))
		for range 3 {
			_, list := a.get(t, "/api/v1/pods", form+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
			_, one := a.get(t, "/api/v1/namespaces/a/pods/x", form+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
			_, watched := a.request(t, "/api/v1/pods?watch=true", form+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
			event := make([]byte, 4096)
			n, err := watched.Read(event)
			if err != nil {
				t.Fatal(err)
			}
			for what, answer := range map[string]string{"list": list, "get": one, "watch": string(event[:n])} {
				if !strings.Contains(answer, "PartialObjectMetadata") || len(answer) > 500 {
					t.Errorf("%s: %s is of %d bytes: %.500q", form, what, len(answer), answer)
				}
			}
		}
		if n := testutil.ToFloat64(wire.Encodes().WithLabelValues(label)) - before; n != 1 {
			t.Errorf("%s: encoded %v times", form, n)
		}
	}
}

// If the requested format is not supported, the request is refused, even if the client
// also accepts complete pods.
func TestMetadataThatAreNotServed(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	const one, list = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for _, c := range []struct{ path, accept, want string }{
		{"/api/v1/pods", "application/json;" + one, "you requested PartialObjectMetadata, but the requested object is a list"},
		{"/api/v1/pods", "application/json;" + one + ",application/json", "you requested PartialObjectMetadata, but the requested object is a list"},
		{"/api/v1/pods", "application/vnd.kubernetes.protobuf;" + one, "you requested PartialObjectMetadata, but the requested object is a list"},
		{"/api/v1/pods?watch=true", "application/json;" + list, "you requested PartialObjectMetadataList, but the requested object is not a list"},
		{"/api/v1/namespaces/a/pods/x", "application/json;" + list + ",*/*", "you requested PartialObjectMetadataList, but the requested object is not a list"},
		{"/api/v1/pods", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1", "only the following media types are accepted"},
		{"/api/v1/pods", "application/json;as=PartialObjectMetadataList", "only the following media types are accepted"},
		{"/api/v1/pods", "application/yaml;" + list, "only the following media types are accepted"},
	} {
		t.Run(c.path+" "+c.accept, func(t *testing.T) {
			code, body := a.get(t, c.path, c.accept)
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusNotAcceptable || status.Reason != metav1.StatusReasonNotAcceptable || !strings.HasPrefix(status.Message, c.want) {
				t.Errorf("%s, %s: %d %s, want %s", c.path, c.accept, code, body, c.want)
			}
		})
	}
	if code, body := a.get(t, "/api/v1/pods", "application/json;"+list+"x,application/json"); code != http.StatusOK || !strings.Contains(body, `"kind":"PodList"`) {
		t.Errorf("what is not known before JSON: %d %s", code, body)
	}
}
