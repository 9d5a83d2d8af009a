package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestKubectlPrintsReadOnly runs writes and permission queries of a real kubectl.
func TestKubectlPrintsReadOnly(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "nginx:1.27")
	d = e2e.Start(t, d.Dir)
	kubectl := d.Kubectl(t)
	file := func(name, kind, version, spec string) string {
		path := filepath.Join(d.Dir, name+".yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", version, kind, name, spec), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newPod := file("new", "Pod", "v1", "{containers: [{name: c, image: i}]}")
	web := file("web-node1", "Pod", "v1", "{containers: [{name: c, image: other}]}")
	deployment := file("deploy", "Deployment", "apps/v1", "{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}")
	editor := filepath.Join(d.Dir, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/image: .*/image: other/' \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	const readOnly = " is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver"
	for args, want := range map[string]string{
		"create -f " + newPod:                      `Error from server (MethodNotAllowed): error when creating "` + newPod + `": POST` + readOnly,
		"apply -f " + newPod:                       `Error from server (MethodNotAllowed): error when creating "` + newPod + `": POST` + readOnly,
		"apply -f " + web:                          "PATCH" + readOnly,
		"apply --server-side -f " + newPod:         "Error from server (MethodNotAllowed): PATCH" + readOnly,
		"apply --dry-run=server -f " + newPod:      "POST" + readOnly,
		"apply --validate=false -f " + deployment:  `no matches for kind "Deployment" in version "apps/v1"`,
		"create --validate=false -f " + deployment: `no matches for kind "Deployment" in version "apps/v1"`,
		"replace -f " + web:                        "PUT" + readOnly,
		"delete pod web-node1":                     "Error from server (MethodNotAllowed): DELETE" + readOnly,
		"delete pods --all":                        "Error from server (MethodNotAllowed): DELETE" + readOnly,
		"edit pod web-node1":                       `error: pods "web-node1" could not be patched: PATCH` + readOnly,
		"label pod web-node1 a=b":                  "Error from server (MethodNotAllowed): PATCH" + readOnly,
		"set image pod/web-node1 c=other":          "PATCH" + readOnly,
		"run x --image=i":                          "Error from server (MethodNotAllowed): POST" + readOnly,
		"exec web-node1 -- ls":                     "for example crictl exec, or kubectl with a kubeconfig of the apiserver",
		"create namespace x":                       "Error from server (MethodNotAllowed): POST" + readOnly,
		"logs web-node1":                           "for example crictl logs, or kubectl with a kubeconfig of the apiserver",
		"explain pod.spec.nope":                    `field "nope" does not exist`,
	} {
		t.Run(args, func(t *testing.T) {
			cmd := kubectl.Command(t, strings.Fields(args)...)
			cmd.Env = append(cmd.Env, "KUBE_EDITOR="+editor, "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "--validate=false") {
				t.Errorf("kubectl %s: %v\n%s\nwant %s", args, err, out, want)
			}
		})
	}
	hasLines(t, kubectl.Run(t, "explain", "pod"), "KIND: Pod", "VERSION: v1", "spec <PodSpec>")
	hasLines(t, kubectl.Run(t, "explain", "pods.spec.containers.image"), "FIELD: image <string>")
	if out := kubectl.Run(t, "explain", "po", "--recursive"); strings.Count(out, "\n") < 500 {
		t.Errorf("kubectl explain --recursive has %d lines", strings.Count(out, "\n"))
	}
	hasLines(t, kubectl.Run(t, "get", "pods", "-o", "custom-columns=I:.spec.containers[0].image", "--no-headers"), "nginx:1.27")
}
