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

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func TestLists(t *testing.T) {
	a := serve(t, journal.Options{})
	a.ready("file")
	a.change(config.ADD, "file", "b/y=1")
	a.change(config.ADD, "file", "a/x=1")
	a.change(config.ADD, "file", "a/z=1")
	a.change(config.UPDATE, "file", "a/x=2")
	for path, want := range map[string]string{
		"/api/v1/pods":                                                                             "a/x=2@4 a/z=1@3 b/y=1@1",
		"/api/v1/namespaces/a/pods":                                                                "a/x=2@4 a/z=1@3",
		"/api/v1/namespaces/none/pods":                                                             "",
		"/api/v1/pods?labelSelector=version%3D1":                                                   "a/z=1@3 b/y=1@1",
		"/api/v1/pods?fieldSelector=metadata.name%3Dx":                                             "a/x=2@4",
		"/api/v1/pods?fieldSelector=metadata.namespace%3Db":                                        "b/y=1@1",
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dnode2":                                         "",
		"/api/v1/pods?fieldSelector=status.phase%3DPending,spec.nodeName=node1":                    "a/x=2@4 a/z=1@3 b/y=1@1",
		"/api/v1/pods?fieldSelector=spec.host%3Dnode1,metadata.name!=x":                            "a/z=1@3 b/y=1@1",
		"/api/v1/pods?fieldSelector=spec.hostNetwork%3Dtrue":                                       "",
		"/api/v1/pods?fieldSelector=status.podIPs%3D":                                              "a/x=2@4 a/z=1@3 b/y=1@1",
		"/api/v1/pods?resourceVersion=0":                                                           "a/x=2@4 a/z=1@3 b/y=1@1",
		fmt.Sprintf("/api/v1/pods?resourceVersion=%d", a.base+2):                                   "a/x=2@4 a/z=1@3 b/y=1@1",
		fmt.Sprintf("/api/v1/pods?resourceVersionMatch=Exact&resourceVersion=%d", a.base+2):        "a/x=1@2 b/y=1@1",
		fmt.Sprintf("/api/v1/pods?resourceVersionMatch=NotOlderThan&resourceVersion=%d", a.base+2): "a/x=2@4 a/z=1@3 b/y=1@1",
		"/api/v1/pods?pretty=true&unknown=1":                                                       "a/x=2@4 a/z=1@3 b/y=1@1",
	} {
		t.Run(path, func(t *testing.T) {
			if got, _ := a.list(t, path); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		})
	}
	var pod v1.Pod
	code, body := a.get(t, "/api/v1/namespaces/a/pods/x", "")
	if err := json.Unmarshal([]byte(body), &pod); err != nil || code != http.StatusOK || a.show(t, &pod) != "a/x=2@4" {
		t.Errorf("get: %d %s", code, body)
	}
}

// All pages of a list have one revision. After it is compacted, they end with 410.
func TestPiecesOfAList(t *testing.T) {
	a := serve(t, journal.Options{MaxUpdates: 10})
	a.ready("file")
	for i := range 5 {
		a.change(config.ADD, "file", fmt.Sprintf("a/p%d=1", i))
	}
	first, next := a.list(t, "/api/v1/pods?limit=2")
	if first != "a/p0=1@1 a/p1=1@2" || next == "" {
		t.Fatalf("first: %s, then %q", first, next)
	}
	a.change(config.REMOVE, "file", "a/p3=1")
	a.change(config.UPDATE, "file", "a/p2=2")
	a.change(config.ADD, "file", "a/p21=1")
	second, last := a.list(t, "/api/v1/pods?limit=2&continue="+next)
	if second != "a/p2=1@3 a/p3=1@4" {
		t.Errorf("second: %s", second)
	}
	if third, end := a.list(t, "/api/v1/pods?limit=2&continue="+last); third != "a/p4=1@5" || end != "" {
		t.Errorf("third: %s, then %q", third, end)
	}
	for range 10 {
		a.change(config.UPDATE, "file", "a/p0=2")
	}
	for _, query := range []string{"limit=2&continue=" + next, fmt.Sprintf("resourceVersionMatch=Exact&resourceVersion=%d", a.base+3)} {
		code, body := a.get(t, "/api/v1/pods?"+query, "")
		if code != http.StatusGone || !strings.Contains(body, `"reason":"Expired"`) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

// A name has one pod: the first by source. A mirror pod counts only if there is no other.
func TestNames(t *testing.T) {
	a := serve(t, journal.Options{Sources: []string{"api", "file", "http"}})
	a.ready("api", "file", "http")
	a.change(config.ADD, "http", "a/x=http")
	a.change(config.ADD, "api", "a/x=mirror")
	a.change(config.ADD, "api", "a/only=mirror")
	a.change(config.ADD, "file", "b/other=file")
	list, _ := a.list(t, "/api/v1/pods")
	if want := "a/only=mirror@3 a/x=http@1 b/other=file@4"; list != want {
		t.Errorf("got %s, want %s", list, want)
	}
	w := a.watch(t, fmt.Sprintf("resourceVersion=%d", a.base+4))
	a.change(config.UPDATE, "api", "a/x=mirror2")
	a.change(config.ADD, "file", "a/x=file")    // comes before http
	a.change(config.REMOVE, "http", "a/x=http") // without a visible change
	a.change(config.REMOVE, "file", "a/x=file") // the mirror pod remains
	a.change(config.REMOVE, "api", "a/x=mirror2")
	// One pod is removed and another added, each with a revision to resume from.
	w.expect(t, "DELETED a/x=http@6", "ADDED a/x=file@7", "DELETED a/x=file@9", "ADDED a/x=mirror2@10", "DELETED a/x=mirror2@11")
}

// docs/reference/kubernetes-api.md has the order.
func TestTheOrderOfSources(t *testing.T) {
	a := serve(t, journal.Options{Sources: []string{"api", "file", "http"}})
	for _, source := range []string{"http", "file", "api"} {
		a.change(config.ADD, source, "a/x="+source)
	}
	for _, source := range []string{"api", "file", "http"} {
		if got, _ := a.list(t, "/api/v1/pods"); !strings.HasPrefix(got, "a/x="+source+"@") {
			t.Errorf("got %s, want that of %s", got, source)
		}
		a.change(config.REMOVE, source, "a/x="+source)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	for path, want := range map[string]string{
		"/api/v1/pods?timeoutSeconds=-1":                                              `400 BadRequest parameter "timeoutSeconds": expected a whole number from 0 to`,
		"/api/v1/pods?limit=x&watch=maybe":                                            "400 BadRequest parameter \"watch\": expected true or false, got \"maybe\"\nparameter \"limit\"",
		"/api/v1/pods?continue=x":                                                     `400 BadRequest parameter "continue": not a token of this server`,
		"/api/v1/pods?continue=e30":                                                   `400 BadRequest parameter "continue": not a token of this server: no revision`,
		"/api/v1/pods?continue=bnVsbA":                                                `400 BadRequest parameter "continue": not a token of this server`,
		"/api/v1/pods?labelSelector=%3D%3D":                                           `400 BadRequest parameter "labelSelector"`,
		"/api/v1/pods?fieldSelector=spec.foo%3D1":                                     `400 BadRequest parameter "fieldSelector": field label not supported: spec.foo`,
		"/api/v1/pods?resourceVersion=abc":                                            `400 BadRequest parameter "resourceVersion"`,
		"/api/v1/pods?resourceVersionMatch=Exact":                                     `400 BadRequest parameter "resourceVersionMatch": requires resourceVersion`,
		"/api/v1/pods?resourceVersion=1&resourceVersionMatch=Newest":                  `400 BadRequest parameter "resourceVersionMatch": expected Exact or NotOlderThan, got "Newest"`,
		"/api/v1/pods?sendInitialEvents=true":                                         `400 BadRequest parameter "sendInitialEvents": only allowed in a watch`,
		"/api/v1/pods?watch=true&sendInitialEvents=true":                              `400 BadRequest parameter "sendInitialEvents": requires resourceVersionMatch=NotOlderThan`,
		"/api/v1/pods?watch=true&continue=" + new(continuation{1, "a", "x"}).String(): `400 BadRequest parameter "continue": not allowed in a watch`,
		"/api/v1/pods?resourceVersion=99999999999999":                                 "504 Timeout Too large resource version: 99999999999999, current: ",
		"/api/v1/namespaces/a/pods/nope":                                              `404 NotFound pods "nope" not found`,
		"/api/v1/namespaces/a/pods/x/log":                                             "404 NotFound podconfigd runs nothing in containers, and reads nothing from them: use crictl on the node, for example crictl logs",
		"/api/v1/namespaces/a/pods/x/status":                                          "404 NotFound the server could not find the requested resource: there is nothing at /api/v1/namespaces/a/pods/x/status",
		"/apis/apps/v1/deployments":                                                   "404 NotFound the server could not find the requested resource",
	} {
		t.Run(path, func(t *testing.T) {
			code, body := a.get(t, path, "")
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || status.Kind != "Status" || int(status.Code) != code {
				t.Errorf("%s: %d %s", path, code, body)
			}
			if got := fmt.Sprintf("%d %s %s", code, status.Reason, status.Message); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
		})
	}
	if code, body := a.get(t, "/api/v1/pods", "application/cbor, text/html"); code != http.StatusNotAcceptable || !strings.Contains(body, "application/vnd.kubernetes.protobuf") {
		t.Errorf("of no form: %d %s", code, body)
	}
}

// Until every source has been seen, there is no list, because it would look complete.
func TestNothingIsServedBeforeTheSourcesAreReady(t *testing.T) {
	a := serve(t, journal.Options{Sources: []string{"file", "api"}})
	a.change(config.ADD, "file", "a/x=1")
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?watch=true", "/api/v1/namespaces/a/pods/x"} {
		code, body := a.get(t, path, "")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "the pods are not known yet: waiting for sources: api") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	a.change(config.ADD, "api", "a/y=1")
	if got, _ := a.list(t, "/api/v1/pods"); got != "a/x=1@1 a/y=1@2" {
		t.Errorf("got %s", got)
	}
}

// client-go gets the same with JSON and with protobuf, and understands the errors.
func TestForms(t *testing.T) {
	a := serve(t, journal.Options{Sources: []string{"api", "file"}})
	a.change(config.ADD, "api", "a/x=1")
	a.change(config.ADD, "file", "a/y=1")
	lists := make(map[string]*v1.PodList)
	for form, client := range a.clientsets(t) {
		list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		lists[form] = list
		pod, err := client.CoreV1().Pods("a").Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&list.Items[0], pod); diff != "" {
			t.Errorf("%s: list and get differ: %s", form, diff)
		}
		if _, err := client.CoreV1().Pods("a").Get(t.Context(), "nope", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", form, err)
		}
		if _, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: %v", form, err)
		}
		server, err := client.Discovery().ServerResourcesForGroupVersion("v1")
		if err != nil || len(server.APIResources) != len(resources) {
			t.Errorf("discovery: %v, %v", server, err)
		}
	}
	if diff := cmp.Diff(lists[jsonType], lists[protobufType]); diff != "" {
		t.Errorf("JSON (-) and protobuf (+) differ: %s", diff)
	}
	if got := a.show(t, &lists[jsonType].Items[0]); got != "a/x=1@1" || *lists[jsonType].RemainingItemCount != 1 {
		t.Errorf("got %s, %+v", got, lists[jsonType].ListMeta)
	}
}
