package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

const initialEvents = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

func TestWhereWatchesBegin(t *testing.T) {
	a := serve(t, journal.Options{})
	a.ready("file")
	a.change(config.ADD, "file", "b/y=1")
	a.change(config.ADD, "file", "a/x=1")
	a.change(config.UPDATE, "file", "a/x=2")
	watches := map[*events][]string{
		a.watch(t, ""):                                                                                {"ADDED b/y=1@1", "ADDED a/x=2@3"},
		a.watch(t, "resourceVersion=0"):                                                               {"ADDED b/y=1@1", "ADDED a/x=2@3"},
		a.watch(t, "allowWatchBookmarks=true"):                                                        {"ADDED b/y=1@1", "ADDED a/x=2@3"},
		a.watch(t, initialEvents):                                                                     {"ADDED b/y=1@1", "ADDED a/x=2@3", "BOOKMARK /@3 end"},
		a.watch(t, initialEvents+"&resourceVersion=1"):                                                {"ADDED b/y=1@1", "ADDED a/x=2@3", "BOOKMARK /@3 end"},
		a.watch(t, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"):                        {"ADDED b/y=1@1", "ADDED a/x=2@3"},
		a.watch(t, "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"):                       {},
		a.watch(t, fmt.Sprintf("resourceVersion=%d", a.base+1)):                                       {"ADDED a/x=1@2", "MODIFIED a/x=2@3"},
		a.watch(t, fmt.Sprintf("resourceVersion=%d", a.base+3)):                                       {},
		a.watch(t, "labelSelector=version%3D2"):                                                       {"ADDED a/x=2@3"},
		a.watch(t, fmt.Sprintf("resourceVersion=%d&fieldSelector=metadata.namespace%%3Da", a.base+1)): {"ADDED a/x=1@2", "MODIFIED a/x=2@3"},
	}
	for w, want := range watches {
		w.expect(t, want...)
	}
	a.change(config.ADD, "file", "a/z=2")
	for w := range watches {
		w.expect(t, "ADDED a/z=2@4")
	}
}

// A pod that starts to match is ADDED, one that no longer matches is DELETED. A new pod
// of a name comes after the old one.
func TestSelectionIsOfPods(t *testing.T) {
	a := serve(t, journal.Options{})
	a.ready("file")
	a.change(config.ADD, "file", "a/x=1")
	w := a.watch(t, fmt.Sprintf("labelSelector=version%%3D2&resourceVersion=%d", a.base+1))
	other := a.watch(t, "labelSelector=version%21%3D2")
	other.expect(t, "ADDED a/x=1@1")
	a.change(config.UPDATE, "file", "a/x=2")
	a.change(config.RECONCILE, "file", "a/x=2")
	a.change(config.SYNC, "file", "a/x=2")
	a.change(config.UPDATE, "file", "a/x=3")
	a.change(config.REMOVE, "file", "a/x=3")
	a.change(config.ADD, "file", "a/y=2")
	// DELETED has the version that the subscriber has, with the revision of the removal.
	w.expect(t, "ADDED a/x=2@2", "MODIFIED a/x=2@3", "DELETED a/x=2@4", "ADDED a/y=2@6")
	other.expect(t, "DELETED a/x=1@2", "ADDED a/x=3@4", "DELETED a/x=3@5")
}

func TestWatchesEnd(t *testing.T) {
	a := serve(t, journal.Options{MaxUpdates: 4})
	a.ready("file")
	for i := range 10 {
		a.change(config.UPDATE, "file", fmt.Sprintf("a/x=%d", i))
	}
	a.watch(t, fmt.Sprintf("resourceVersion=%d", a.base+2)).expect(t, "ERROR 410 Expired", "")
	a.watch(t, "resourceVersion=5").expect(t, "ERROR 410 Expired", "")
	a.watch(t, fmt.Sprintf("resourceVersion=%d", a.base+100)).expect(t, "ERROR 410 Expired", "")
	code, body := a.get(t, fmt.Sprintf("/api/v1/pods?watch=1&%s&resourceVersion=%d", initialEvents, a.base+100), "")
	if code != http.StatusGatewayTimeout || !strings.Contains(body, "ResourceVersionTooLarge") {
		t.Errorf("%d %s", code, body)
	}

	// It falls behind while it does not read.
	slow := a.watch(t, fmt.Sprintf("resourceVersion=%d", a.base+10))
	for range 100 {
		pod := podOf("file", "a", "x", "1")
		pod.Annotations = map[string]string{"a": strings.Repeat("x", 60<<10)}
		a.journal.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{pod}})
	}
	slow.scanner.Buffer(nil, 1<<20)
	events := 0
	for event := slow.next(t); event != "ERROR 410 Expired"; event = slow.next(t) {
		if events++; event == "" || events == 100 {
			t.Fatalf("after %d events it says %q", events, event)
		}
	}
}

func TestAWatchEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveInMemory(t, 0)
		a.ready("file")
		a.change(config.ADD, "file", "a/x=1")
		a.watch(t, "timeoutSeconds=1").expect(t, "ADDED a/x=1@1", "")
	})
}

// slow is the answer of a machine that stands still after each flush.
type slow struct {
	http.ResponseWriter
	by time.Duration
}

func (w slow) FlushError() error {
	defer func() { <-time.After(w.by) }()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w slow) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A client that reads gets the end of its watch, also from a machine that stood still for seconds meanwhile.
func TestAWatchEndsAfterAStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveInMemory(t, 5*time.Second)
		a.ready("file")
		for range 2 { // the second request has the connection of the first one
			if _, body := a.get(t, "/api/v1/pods?watch=1&timeoutSeconds=1", ""); body != "" {
				t.Errorf("it has %s", body)
			}
		}
	})
}

// In virtual time, a watch without the bookmark ends at once.
func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveInMemory(t, 0)
		a.ready("file")
		a.change(config.ADD, "file", "a/x=1")
		begin := fmt.Sprintf("timeoutSeconds=60&labelSelector=none&resourceVersion=%d", a.base+1)
		with, without := a.watch(t, begin+"&allowWatchBookmarks=true"), a.watch(t, begin)
		a.change(config.UPDATE, "file", "a/x=2")
		a.journal.Progress()
		with.expect(t, "BOOKMARK /@2")
		pod := podOf("file", "a", "y", "1")
		pod.Labels["none"] = ""
		a.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{pod}})
		with.expect(t, "ADDED a/y=1@3")
		without.expect(t, "ADDED a/y=1@3")
	})
}

// client-go gets the same with JSON and with protobuf.
func TestFormsOfWatches(t *testing.T) {
	a := serve(t, journal.Options{MaxUpdates: 20})
	a.change(config.ADD, "file", "a/x=1")
	events := make(map[string][]watch.Event)
	clients := make(map[string]watch.Interface)
	for form, client := range a.clientsets(t) {
		w, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		clients[form] = w
		expired, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if event := <-expired.ResultChan(); event.Type != watch.Error || event.Object.(*metav1.Status).Code != http.StatusGone {
			t.Errorf("%s: of a revision that is gone: %+v", form, event)
		}
		expired.Stop()
	}
	for _, change := range []func(){func() {}, func() {}, func() { a.change(config.UPDATE, "file", "a/x=2") }, func() { a.change(config.REMOVE, "file", "a/x=2") }} {
		change()
		for form, w := range clients {
			events[form] = append(events[form], <-w.ResultChan())
		}
	}
	if diff := cmp.Diff(events[jsonType], events[protobufType]); diff != "" {
		t.Errorf("JSON (-) and protobuf (+) differ: %s", diff)
	}
	var types []watch.EventType
	for _, event := range events[jsonType] {
		types = append(types, event.Type)
	}
	if fmt.Sprint(types) != "[ADDED BOOKMARK MODIFIED DELETED]" {
		t.Errorf("got %v", types)
	}
}

func TestTables(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for include, want := range map[string]string{"": "PartialObjectMetadata", "Metadata": "PartialObjectMetadata", "Object": "Pod", "None": ""} {
		t.Run(include, func(t *testing.T) {
			_, body := a.get(t, "/api/v1/pods?includeObject="+include, accept)
			var table metav1.Table
			if err := json.Unmarshal([]byte(body), &table); err != nil || table.Kind != "Table" || len(table.Rows) != 1 || len(table.ColumnDefinitions) != 9 {
				t.Fatalf("%v in %s", err, body)
			}
			var object v1.Pod
			if want != "" {
				if err := json.Unmarshal(table.Rows[0].Object.Raw, &object); err != nil || a.show(t, &object) != "a/x=1@1" {
					t.Errorf("%v in %s", err, body)
				}
			}
			if object.Kind != want {
				t.Errorf("includeObject=%s gives a %q", include, object.Kind)
			}
		})
	}
	if _, body := a.get(t, "/api/v1/namespaces/a/pods/x", accept); !strings.Contains(body, `"cells":["x","0/1","Pending","0","\u003cunknown\u003e"`) {
		t.Errorf("get: %s", body)
	}
	_, body := a.request(t, "/api/v1/pods?watch=true&"+initialEvents, accept)
	decoder := json.NewDecoder(body)
	for i, want := range []watch.EventType{watch.Added, watch.Bookmark, watch.Modified} {
		var event struct {
			Type   watch.EventType
			Object metav1.Table
		}
		if err := decoder.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if event.Type != want || (len(event.Object.ColumnDefinitions) > 0) != (i == 0) || len(event.Object.Rows) != 1 {
			t.Errorf("event %d is %+v, want %s", i, event, want)
		}
		if want == watch.Bookmark {
			a.change(config.UPDATE, "file", "a/x=2")
		}
	}
}
