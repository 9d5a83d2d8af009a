package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	podconfigdclient "github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// objectsOfTheCluster compares the node and a namespace with the apiserver's, while they change
// there.
func objectsOfTheCluster(t *testing.T, c *cluster) {
	const node, namespace, empty = "objects", "objects", "objects-without-pods"
	ctx := t.Context()
	c.addNode(t, node)
	c.addNode(t, "another-node")
	for _, name := range []string{namespace, empty} {
		if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"team": "blue"}, Annotations: map[string]string{"owner": "x"},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Client.CoreV1().Pods(namespace).Create(ctx, newPod("a", node), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patchNode := func(patch string, subresources ...string) {
		t.Helper()
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
			t.Fatal(err)
		}
	}
	patchNode(`{"metadata":{"labels":{"node-role.kubernetes.io/worker":"","kubernetes.io/role":"edge"},"annotations":{"a":"b"}},"spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule"}]}}`)
	patchNode(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}],"capacity":{"cpu":"2"},
		"addresses":[{"type":"InternalIP","address":"10.0.0.7"},{"type":"ExternalIP","address":"192.0.2.7"}],
		"nodeInfo":{"kubeletVersion":"v1.36.3","osImage":"Debian","kernelVersion":"6.1","containerRuntimeVersion":"containerd://2.4","architecture":"arm64",
		"machineID":"","systemUUID":"","bootID":"","kubeProxyVersion":"","operatingSystem":"linux"}}}`, "status")

	admin := c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "admin"), "admin", "system:masters")
	conf, err := clientcmd.BuildConfigFromFlags("", admin)
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
	d := c.daemon(t, node, c.kubeconfig(t), "--namespace-metadata")
	testutil.Until(t, "the daemon answers", func() bool { _, err := d.Client.Status(t.Context()); return err == nil })
	transport := &http.Transport{DialContext: (&e2e.Dialer{Socket: d.Socket}).Dial}
	t.Cleanup(transport.CloseIdleConnections)
	podconfigd := endpoint{&http.Client{Transport: transport}, "http://localhost"}

	const table = "application/json;as=Table;g=meta.k8s.io;v=v1"
	same := func(path, accept string) error {
		real, ours := apiserver.ask(t, path, accept), podconfigd.ask(t, path, accept)
		if diff := cmp.Diff(alike(real.object), alike(ours.object)); real.code != ours.code || real.contentType != ours.contentType || diff != "" {
			return fmt.Errorf("%s: the apiserver answers %d %s, podconfigd %d %s: %s", path, real.code, real.contentType, ours.code, ours.contentType, diff)
		}
		return nil
	}
	awaitSame := func() {
		t.Helper()
		testutil.Eventually(t, func() error { return same("/api/v1/nodes/"+node, "") })
		testutil.Eventually(t, func() error { return same("/api/v1/namespaces/"+namespace, "") })
	}
	sameAll := func() {
		t.Helper()
		awaitSame()
		for _, path := range []string{
			"/api/v1/nodes/" + node, "/api/v1/nodes?fieldSelector=metadata.name%3D" + node, "/api/v1/namespaces/" + namespace,
			"/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name%3D" + namespace,
			"/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue%2Cmetadata.name%3D" + node,
			"/api/v1/namespaces?fieldSelector=status.phase%3DActive%2Cmetadata.name%3D" + namespace,
			"/api/v1/nodes?fieldSelector=spec.foo%3D1", "/api/v1/nodes/nope", "/api/v1/namespaces/nope", "/api/v1/nodes?limit=x",
		} {
			for _, accept := range []string{"", table, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
				if strings.HasSuffix(path, "/nope") && accept != "" {
					continue // the apiserver looks for the object first
				}
				if err := same(path, accept); err != nil {
					t.Error(err)
				}
			}
		}
	}
	sameAll()
	sameDiscovery(t, apiserver, podconfigd)
	if code := podconfigd.ask(t, "/api/v1/namespaces/"+empty, "").code; code != http.StatusNotFound {
		t.Errorf("a namespace without pods here: %d", code)
	}

	blue := labelsAnd(map[string]string{"kubernetes.io/metadata.name": namespace, "team": "blue"}, map[string]string{"owner": "x"})
	red := labelsAnd(map[string]string{"kubernetes.io/metadata.name": namespace, "team": "red"}, nil)
	role, worker := "kubernetes.io/role", "node-role.kubernetes.io/worker"
	streamHasMetadata(t, d, namespace, blue, labelsAnd(map[string]string{role: "edge", worker: ""}, map[string]string{"a": "b"}), func() {
		patchNode(`{"metadata":{"labels":{"kubernetes.io/role":null,"zone":"a"}},"spec":{"unschedulable":null}}`)
		patchNode(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}`, "status")
		patch := []byte(`{"metadata":{"labels":{"team":"red"},"annotations":{"owner":null}}}`)
		if _, err := c.Client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}, red, labelsAnd(map[string]string{"zone": "a", worker: ""}, map[string]string{"a": "b"}))
	awaitSame()
	for _, args := range []string{"get nodes " + node + " -o wide", "get ns " + namespace + " --show-labels", "describe ns " + namespace} {
		real := e2e.Kubectl{Server: "https://" + c.Address}.Run(t, append([]string{"--kubeconfig", admin}, strings.Fields(args)...)...)
		ours := d.Kubectl(t).Run(t, strings.Fields(args)...)
		// Quotas, which podconfigd does not have, come last.
		if !strings.HasPrefix(e2e.Ages.ReplaceAllString(real, ""), e2e.Ages.ReplaceAllString(ours, "")) {
			t.Errorf("kubectl %s prints of the apiserver:\n%s\nof podconfigd:\n%s", args, real, ours)
		}
	}
}

func labelsAnd(labels, annotations map[string]string) *v1alpha1.Metadata {
	return &v1alpha1.Metadata{Labels: labels, Annotations: annotations}
}

// streamHasMetadata reads the stream until it has sent the metadata of a namespace and of the node. Then it changes both, and
// reads on until it has sent the new metadata, and no pod again.
func streamHasMetadata(t *testing.T, d *e2e.Daemon, name string, namespace, node *v1alpha1.Metadata, change func(), newNamespace, newNode *v1alpha1.Metadata) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	var got [2]*v1alpha1.Metadata
	want, changed := [2]*v1alpha1.Metadata{namespace, node}, false
	for u, err := range d.Client.Updates(ctx, podconfigdclient.Options{NamespaceLabels: true, NodeLabels: true}) {
		if err != nil {
			t.Error(err)
			break
		}
		if changed && len(u.Pods) > 0 {
			t.Errorf("a pod came with the change: %+v", u)
		}
		if m := u.Namespaces[name]; m != nil {
			got[0] = m
		}
		if u.Node != nil {
			got[1] = u.Node
		}
		switch {
		case changed && cmp.Equal(got, want):
			return
		case !changed && u.InitialSyncComplete:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("at the start: %s", diff)
			}
			change()
			want, changed = [2]*v1alpha1.Metadata{newNamespace, newNode}, true
		}
	}
	t.Errorf("the stream: %s", cmp.Diff(want, got))
}

// alike removes from an object what differs on purpose: the age in a row, and the
// finalizers of a namespace, which are not in its metadata.
func alike(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	if object["kind"] == "Status" {
		return map[string]any{"reason": object["reason"], "code": object["code"]}
	}
	if definitions, ok := object["columnDefinitions"].([]any); ok {
		for i, definition := range definitions {
			if definition.(map[string]any)["name"] != "Age" {
				continue
			}
			for _, row := range object["rows"].([]any) {
				row.(map[string]any)["cells"].([]any)[i] = "an age"
			}
		}
	}
	items, _ := object["items"].([]any)
	if object["items"] == nil && strings.HasSuffix(fmt.Sprint(object["kind"]), "List") {
		object["items"] = []any{} // an empty list of metadata of the apiserver has null
	}
	for _, item := range append(items, object) {
		item := item.(map[string]any)
		if spec, ok := item["spec"].(map[string]any); ok && spec["finalizers"] != nil {
			item["spec"] = map[string]any{}
		}
	}
	return object
}

// sameDiscovery compares the discovery documents for what podconfigd serves.
func sameDiscovery(t *testing.T, apiserver, podconfigd endpoint) {
	t.Helper()
	resources := func(e endpoint) map[string]metav1.APIResource {
		data, err := json.Marshal(e.ask(t, "/api/v1", "").object)
		if err != nil {
			t.Fatal(err)
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(data, &list); err != nil || list.Kind != "APIResourceList" || list.GroupVersion != "v1" {
			t.Fatalf("%s: %v", data, err)
		}
		byName := make(map[string]metav1.APIResource)
		for _, res := range list.APIResources {
			res.StorageVersionHash = ""
			res.Verbs = slices.DeleteFunc(res.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
			byName[res.Name] = res
		}
		return byName
	}
	real, ours := resources(apiserver), resources(podconfigd)
	for name, res := range ours {
		if diff := cmp.Diff(real[name], res); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(ours) != 3 {
		t.Errorf("%d resources", len(ours))
	}
	sameAggregatedDiscovery(t, apiserver, podconfigd)
}

// sameAggregatedDiscovery compares the document that kubectl reads first.
func sameAggregatedDiscovery(t *testing.T, apiserver, podconfigd endpoint) {
	t.Helper()
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
	resources := func(e endpoint) (string, map[string]any) {
		reply := e.ask(t, "/api", accept)
		group := reply.object.(map[string]any)["items"].([]any)[0].(map[string]any)
		version := group["versions"].([]any)[0].(map[string]any)
		byName := make(map[string]any)
		for _, res := range version["resources"].([]any) {
			res := res.(map[string]any)
			delete(res, "subresources")
			res["verbs"] = slices.DeleteFunc(res["verbs"].([]any), func(verb any) bool { return !slices.Contains([]any{"get", "list", "watch"}, verb) })
			byName[fmt.Sprint(res["resource"])] = res
		}
		delete(version, "resources")
		return fmt.Sprint(reply.contentType, reply.object), byName
	}
	realRest, real := resources(apiserver)
	ourRest, ours := resources(podconfigd)
	for name, res := range ours {
		if diff := cmp.Diff(real[name], res); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if realRest != ourRest || len(ours) != 3 {
		t.Errorf("the apiserver has %s, podconfigd %s with %d resources", realRest, ourRest, len(ours))
	}
	if groups := podconfigd.ask(t, "/apis", accept); !strings.Contains(groups.contentType, "APIGroupDiscoveryList") || fmt.Sprint(groups.object.(map[string]any)["items"]) != "[]" {
		t.Errorf("groups: %+v", groups)
	}
	if plain := podconfigd.ask(t, "/api", "application/json,"+accept); plain.object.(map[string]any)["kind"] != "APIVersions" {
		t.Errorf("plain: %+v", plain)
	}
}
