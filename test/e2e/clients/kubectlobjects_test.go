package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// kubectl shows the node and the namespaces, and what depends on them, without an apiserver.
func TestKubectlShowsNodesAndNamespaces(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "nginx")
	d.PutFile(t, "db", "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop}\nspec: {containers: [{name: c, image: postgres, resources: {requests: {cpu: 1m, memory: 1Mi}}}]}\n")
	d = e2e.Start(t, d.Dir, "--node-ip", "192.0.2.7")
	d.AwaitFiles(t)
	kubectl := d.Kubectl(t)
	for args, want := range map[string][]string{
		"get nodes": {"NAME STATUS ROLES AGE VERSION", "node1 Unknown <none> <unknown>"},
		"get no node1 -o jsonpath={.status.addresses[*].address}{\"\\n\"}": {"192.0.2.7 node1"},
		"get ns":      {"NAME STATUS AGE", "default Active <unknown>", "shop Active <unknown>"},
		"get ns shop": {"shop Active <unknown>"},
		"get ns -l kubernetes.io/metadata.name!=shop -o name": {"namespace/default"},
		"describe ns shop":              {"Labels: kubernetes.io/metadata.name=shop", "Status: Active"},
		"describe no node1":             {"InternalIP: 192.0.2.7", "Hostname: node1", "Non-terminated Pods: (2 in total)", "Events: <none>"},
		"describe pod -n shop db-node1": {"Node: node1/", "Events: <none>"},
		"get all -A":                    {"shop db-node1 0/1 Pending 0 0s"},
		"api-versions":                  {"v1"},
		"api-resources": {
			"NAME SHORTNAMES APIVERSION NAMESPACED KIND", "namespaces ns v1 false Namespace",
			"nodes no v1 false Node", "pods po v1 true Pod",
		},
		"explain node.status.addresses": {"FIELD: addresses <[]NodeAddress>"},
		"explain ns.status.phase":       {"FIELD: phase <string>"},
	} {
		t.Run(args, func(t *testing.T) {
			out, err := kubectl.Command(t, strings.Fields(args)...).CombinedOutput()
			if err != nil && want != nil {
				t.Errorf("kubectl %s: %v\n%s", args, err, out)
			}
			hasLines(t, e2e.Ages.ReplaceAllString(string(out), "0s "), want...)
			if strings.Contains(string(out), "-92233") {
				t.Errorf("kubectl %s: a division by zero:\n%s", args, out)
			}
		})
	}
	for args, want := range map[string]string{
		"get ns nope":   `Error from server (NotFound): namespaces "nope" not found`,
		"get node nope": `Error from server (NotFound): nodes "nope" not found`,
		"get secrets":   `the server doesn't have a resource type "secrets"`,
		"get services":  `the server doesn't have a resource type "services"`,
		"get events":    `the server doesn't have a resource type "events"`,
		"create ns x":   "MethodNotAllowed",
		"top node":      "Metrics API not available",
	} {
		t.Run(args, func(t *testing.T) {
			if out := fails(t, kubectl, strings.Fields(args)...); !strings.Contains(out, want) {
				t.Errorf("kubectl %s: %s; want %s", args, out, want)
			}
		})
	}

	expect, _ := watchTable(t, kubectl, 3, "get", "ns", "-w", "--output-watch-events")
	expect("ADDED shop Active")
	d.PutFile(t, "late", "apiVersion: v1\nkind: Pod\nmetadata: {name: late, namespace: another}\nspec: {containers: [{name: c, image: i}]}\n")
	expect("ADDED another Active")
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "db.yaml")); err != nil {
		t.Fatal(err)
	}
	expect("DELETED shop Active")
	expect, _ = watchTable(t, kubectl, 2, "get", "nodes", "-w")
	expect("node1 Unknown")
}
