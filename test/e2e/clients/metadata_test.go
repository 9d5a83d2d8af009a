package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// TestMetadataInformers runs metadata informers of client-go. They use the events of one
// watch, without another list.
func TestMetadataInformers(t *testing.T) {
	testutil.Long(t)
	eachInformer(t, func(t *testing.T, _ bool, form string) { testMetadataInformer(t, form) })
}

func testMetadataInformer(t *testing.T, form string) {
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	put := func(name, version string) {
		t.Helper()
		d.PutFile(t, name, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-of-%[1]s, labels: {version: %q}}\nspec: {containers: [{name: c, image: i}]}\n", name, version))
	}
	for i := range 3 {
		put(fmt.Sprintf("pod-%d", i), "0")
	}
	d = e2e.Start(t, d.Dir)
	d.AwaitFiles(t)
	dialer := &e2e.Dialer{Socket: d.Socket}
	t.Cleanup(dialer.Cut)
	var mu sync.Mutex
	var asked []string
	client, err := metadata.NewForConfig(&rest.Config{
		Host: "http://localhost", QPS: -1, Dial: dialer.Dial,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return e2e.RoundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				asked = append(asked, r.URL.RequestURI())
				mu.Unlock()
				r = r.Clone(r.Context())
				if form == runtime.ContentTypeJSON { // it prefers protobuf
					_, accept, _ := strings.Cut(r.Header.Get("Accept"), ",")
					r.Header.Set("Accept", accept)
				}
				return next.RoundTrip(r)
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	informer := metadatainformer.NewSharedInformerFactory(client, 0).ForResource(podsResource).Informer()
	events := make(chan string, 100)
	show := func(event string, object any) {
		pod := object.(*metav1.PartialObjectMetadata)
		events <- fmt.Sprintf("%s %s=%s", event, pod.Name, pod.Labels["version"])
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { show("add", object) },
		UpdateFunc: func(_, object any) { show("update", object) },
		DeleteFunc: func(object any) { show("delete", object) },
	}); err != nil {
		t.Fatal(err)
	}
	runInformer(t, informer)
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("no event for %v, want %q", testutil.Patience, want)
		}
	}
	for range 3 {
		<-events // in any order
	}
	mu.Lock()
	before := len(asked)
	mu.Unlock()
	for i := 1; i <= 20; i++ {
		put("pod-1", fmt.Sprint(i))
		expect(fmt.Sprintf("update pod-1-node1=%d", i))
	}
	put("late", "0")
	expect("add late-node1=0")
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "pod-2.yaml")); err != nil {
		t.Fatal(err)
	}
	expect("delete pod-2-node1=0")
	awaitStore(t, d, informer, sameMetadata)

	mu.Lock()
	defer mu.Unlock()
	// The watch after a list may start after the list's pods were handled.
	if n := len(asked); n > 2 || n > before+1 {
		t.Errorf("it listed or watched again: %s", strings.Join(asked, " "))
	}
}

func sameMetadata(want *v1.Pod, object any) error {
	got, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || got.UID != want.UID || fmt.Sprint(got.Labels, got.Annotations) != fmt.Sprint(want.Labels, want.Annotations) || got.CreationTimestamp.IsZero() {
		return fmt.Errorf("the informer has %+v, /pods %+v", object, &want.ObjectMeta)
	}
	return nil
}
