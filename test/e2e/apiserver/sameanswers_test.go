package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// sameAnswers sends the same requests to the apiserver and to podconfigd, which have the
// same pods in a namespace.
func sameAnswers(t *testing.T, c *cluster) {
	const namespace = "same-answers"
	variousPods(t, c, namespace)
	conf, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "admin"), "admin", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	conf.QPS = -1
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	apiserver := endpoint{client, "https://" + c.Address}
	d := c.daemon(t, "same", c.kubeconfig(t))
	testutil.Until(t, "the daemon answers", func() bool { _, err := d.Client.Status(t.Context()); return err == nil })
	transport := &http.Transport{DialContext: (&e2e.Dialer{Socket: d.Socket}).Dial}
	t.Cleanup(transport.CloseIdleConnections)
	podconfigd := endpoint{&http.Client{Transport: transport}, "http://localhost"}
	path := "/api/v1/namespaces/" + namespace + "/pods"
	testutil.Eventually(t, func() error {
		if diff := cmp.Diff(apiserver.ask(t, path, "").object, podconfigd.ask(t, path, "").object); diff != "" {
			return fmt.Errorf("the pods differ: %s", diff)
		}
		return nil
	})

	const all, protobuf = "a b c", runtime.ContentTypeProtobuf
	for selector, want := range map[string]string{
		"metadata.name=a":                             "a",
		"metadata.name!=a":                            "b c",
		"metadata.name=a,metadata.name=b":             "",
		"metadata.namespace=" + namespace:             all,
		"metadata.namespace=default":                  "",
		"spec.nodeName=same":                          all,
		"spec.nodeName!=same":                         "",
		"spec.host=same":                              all,
		"spec.host=other":                             "",
		"spec.host=same,metadata.name=c":              "c",
		"spec.restartPolicy=Never":                    "b",
		"spec.schedulerName=mine":                     "b",
		"spec.schedulerName=default-scheduler":        "a c",
		"spec.serviceAccountName=robot":               "b",
		"spec.serviceAccountName=":                    "a c",
		"spec.hostNetwork=true":                       "b",
		"spec.hostNetwork=false":                      "a c",
		"spec.hostNetwork=True":                       "",
		"spec.hostNetwork!=maybe":                     all,
		"status.phase=Running":                        "c",
		"status.phase==Pending":                       "a b",
		"status.podIP=10.0.0.1":                       "c",
		"status.podIP=fd00::1":                        "",
		"status.podIP=":                               "a b",
		"status.podIPs=10.0.0.1":                      "",
		"status.podIPs!=10.0.0.1":                     all,
		"status.podIPs=":                              all,
		"status.nominatedNodeName=elsewhere":          "",
		"status.nominatedNodeName=":                   all,
		"status.phase=Running,spec.hostNetwork!=true": "c",
		"":                     all,
		"metadata.uid=x":       "400",
		"metadata.labels=x":    "400",
		"spec.foo=1":           "400",
		"spec=1":               "400",
		"status.hostIP=1":      "400",
		"metadata.name":        "400",
		"metadata.name=a,":     "a",
		"=":                    all,
		"metadata.name in (a)": "400",
	} {
		t.Run("fieldSelector="+selector, func(t *testing.T) {
			query := "?fieldSelector=" + url.QueryEscape(selector)
			real, ours := apiserver.ask(t, path+query, ""), podconfigd.ask(t, path+query, "")
			if real.code != ours.code || real.reason() != ours.reason() || real.names() != ours.names() {
				t.Errorf("the apiserver answers %d %s %q, podconfigd %d %s %q", real.code, real.reason(), real.names(), ours.code, ours.reason(), ours.names())
			}
			if got := ours.names(); got != want && fmt.Sprint(ours.code) != want {
				t.Errorf("got %d %s, want %s", ours.code, got, want)
			}
			if watched := podconfigd.ask(t, path+query+"&watch=true", protobuf).code; watched != ours.code {
				t.Errorf("a list is answered %d, a watch %d", ours.code, watched)
			}
		})
	}
	sameForms(t, path, apiserver, podconfigd)
	sameParameters(t, path, apiserver, podconfigd)
}

// sameForms compares the answers for each format.
func sameForms(t *testing.T, path string, apiserver, podconfigd endpoint) {
	const one, list = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	const watch = "?watch=true&fieldSelector=metadata.name%3Da"
	const json, protobuf = runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	for _, c := range []struct{ query, accept string }{
		{"", json}, {"", protobuf}, {"", "*/*"}, {"", "text/html"}, {"", "application/cbor"}, {"", json + ";q=0.5," + protobuf + ";q=0.9"},
		{"", json + ";" + list}, {"", protobuf + ";" + list}, {"?limit=1", json + ";" + list}, {"", "*/*;" + list},
		{"", json + ";" + one}, {"", json + ";" + one + "," + json}, {"", protobuf + ";" + one},
		{"", json + ";as=Other;g=meta.k8s.io;v=v1"}, {"", json + ";as=Other;g=meta.k8s.io;v=v1," + json}, {"", json + ";g=meta.k8s.io"},
		{"", json + ";as=Table;g=meta.k8s.io;v=v1"}, {"", protobuf + ";as=Table;g=meta.k8s.io;v=v1"},
		{"?includeObject=all", json + ";as=Table;g=meta.k8s.io;v=v1"}, {"?includeObject=all", json},
		{"/a", json}, {"/a", json + ";" + one}, {"/a", protobuf + ";" + one}, {"/a", json + ";" + list}, {"/a", json + ";" + list + "," + json},
		{"/a", json + ";as=Table;g=meta.k8s.io;v=v1"},
		{watch, json}, {watch, protobuf}, {watch, json + ";" + one}, {watch, protobuf + ";" + one}, {watch, json + ";stream=watch"}, {watch, protobuf + ";stream=watch"},
	} {
		t.Run("pods"+c.query+" "+c.accept, func(t *testing.T) {
			real, ours := apiserver.ask(t, path+c.query, c.accept), podconfigd.ask(t, path+c.query, c.accept)
			if real.code != ours.code || real.contentType != ours.contentType || real.reason() != ours.reason() {
				t.Errorf("the apiserver answers %d %s %s, podconfigd %d %s %s", real.code, real.contentType, real.reason(), ours.code, ours.contentType, ours.reason())
			}
			if strings.Contains(c.accept, "Table") || ours.code != http.StatusOK {
				return // a row's age and the columns' descriptions differ
			}
			if diff := cmp.Diff(real.object, ours.object); diff != "" {
				t.Errorf("the apiserver (-) and podconfigd (+) differ: %s", diff)
			}
		})
	}
}

// sameParameters compares the answers for common parameters and paths.
func sameParameters(t *testing.T, path string, apiserver, podconfigd endpoint) {
	for _, query := range []string{
		"?limit=0", "?limit=-1", "?limit=-9223372036854775808", "?watch=true&limit=-1", "?limit=9223372036854775807", "?limit=9223372036854775808", "?limit=x", "?limit=1", "?limit=1&limit=2",
		"?timeoutSeconds=9223372036", "?timeoutSeconds=9223372036854775808", "?timeoutSeconds=x",
		"?watch=true&limit=1", "?watch=true&limit=x", "?watch=1&timeoutSeconds=9223372036", "?watch=0",
		"?resourceVersion=0", "?resourceVersion=-1", "?resourceVersion=x", "?resourceVersion=18446744073709551616",
		"?resourceVersionMatch=Exact&resourceVersion=-1", "?labelSelector=%3D%3D", "?labelSelector=step%3D0", "?labelSelector=step+notin+(0)",
		"/", "/a/", "/nope", "/nope/", "?unknown=1", "?timeout=10s", "?pretty=false",
	} {
		t.Run("pods"+query, func(t *testing.T) {
			real, ours := apiserver.ask(t, path+query, ""), podconfigd.ask(t, path+query, "")
			if real.code != ours.code || real.reason() != ours.reason() || real.names() != ours.names() {
				t.Errorf("the apiserver answers %d %s %q, podconfigd %d %s %q", real.code, real.reason(), real.names(), ours.code, ours.reason(), ours.names())
			}
		})
	}
}

// variousPods creates pods of the node "same" that differ in the fields of field
// selectors.
func variousPods(t *testing.T, c *cluster, namespace string) {
	c.addNode(t, "same")
	ctx := t.Context()
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := c.Client.CoreV1().Pods(namespace)
	for _, name := range []string{"a", "b", "c"} {
		pod := newPod(name, "same")
		if name == "b" {
			pod.Spec.HostNetwork, pod.Spec.RestartPolicy, pod.Spec.SchedulerName, pod.Spec.ServiceAccountName = true, v1.RestartPolicyNever, "mine", "robot"
		}
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	status := `{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd00::1"}]}}`
	if _, err := pods.Patch(ctx, "c", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// endpoint is a server.
type endpoint struct {
	client *http.Client
	base   string
}

// reply is an answer. Its object is normalized. For a watch, it is the first event.
type reply struct {
	code        int
	contentType string
	object      any
}

func (e endpoint) ask(t *testing.T, path, accept string) *reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := &reply{code: resp.StatusCode, contentType: resp.Header.Get("Content-Type")}
	if !strings.HasPrefix(r.contentType, "application/json") {
		return r // other formats are compared with JSON elsewhere
	}
	if err := json.NewDecoder(resp.Body).Decode(&r.object); err != nil && ctx.Err() == nil {
		t.Fatalf("%s: %v", path, err)
	}
	r.object = normal(r.object)
	return r
}

// normal removes from an object what differs between podconfigd and the apiserver.
func normal(value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "managedFields")
		delete(value, "resourceVersion")
		if value["continue"] != nil {
			value["continue"] = "continues"
		}
		if annotations, ok := value["annotations"].(map[string]any); ok {
			for key := range annotations {
				if strings.HasPrefix(key, "kubernetes.io/config.") {
					delete(annotations, key)
				}
			}
			if len(annotations) == 0 {
				delete(value, "annotations")
			}
		}
		for key := range value {
			value[key] = normal(value[key])
		}
	case []any:
		for i := range value {
			value[i] = normal(value[i])
		}
	}
	return value
}

// names returns the names of a list's pods, or of one pod.
func (r *reply) names() string {
	var names []string
	var collect func(any)
	collect = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if metadata, ok := value["metadata"].(map[string]any); ok && metadata["namespace"] != nil {
				names = append(names, fmt.Sprint(metadata["name"]))
				return
			}
			collect(value["items"])
			collect(value["object"])
		case []any:
			for _, v := range value {
				collect(v)
			}
		}
	}
	collect(r.object)
	slices.Sort(names)
	return strings.Join(names, " ")
}

// reason returns the reason of a failure.
func (r *reply) reason() string {
	if status, ok := r.object.(map[string]any); ok && status["kind"] == "Status" {
		return fmt.Sprint(status["reason"])
	}
	return ""
}
