package clients

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// node is a daemon with its manifests. It can be killed and started again.
type node struct {
	dir, socket string
	// http is the host and port of the plain listener.
	http string
	// https is the host and port of the https listener. There is another one on port 10250 of ip.
	https, ip string
	// target is the port of the pods' metrics.
	target string
	args   []string
	cmd    *exec.Cmd
	log    *testutil.Buffer
	client *client.Client
	// cri runs the steady pods. It is nil in the short form.
	cri *containerd
	// steady are the steady pods that run, by the name of their manifest.
	steady map[string]*running
	// known are the UIDs and IPs of all pods that were in /pods, with the attribute of
	// OpenTelemetry.
	known map[string]string
	// durable is whether the daemon has a state directory.
	durable bool
	// step numbers the versions of manifests.
	step int
}

// newNode returns a node with some manifests, whose daemon does not run.
func newNode(t *testing.T, cri *containerd, durable bool) *node {
	t.Helper()
	dir := testutil.ShortDir(t)
	n := &node{
		dir: dir, socket: filepath.Join(dir, "s"), http: components.FreeAddress(t), log: new(testutil.Buffer),
		cri: cri, target: target(t), steady: make(map[string]*running), known: make(map[string]string), durable: durable,
	}
	n.client = client.New(n.socket)
	n.args = []string{
		"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", n.socket, "--listen", "http://" + n.http,
		"--hostname-override", "node1",
	}
	n.serveHTTPS(t)
	if durable {
		n.args = append(n.args, "--state-dir", filepath.Join(dir, "state"))
	}
	if cri != nil {
		n.args = append(n.args, "--container-runtime-endpoint", "unix://"+cri.Socket, "--node-ip", "192.0.2.7")
	}
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range steadyNames {
		n.write(t, name)
	}
	n.churn(t, 20)
	t.Cleanup(func() {
		n.kill(t)
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", n.log)
		}
	})
	return n
}

// steadyNames are the manifests of the pods that run in the runtime. The last one is
// removed in the end.
var steadyNames = []string{"steady-a", "steady-b", "steady-c"}

// start starts the daemon.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.cmd = exec.CommandContext(context.Background(), binary, n.args...) // outlives the test's context until Cleanup
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the daemon like kill -9.
func (n *node) kill(t *testing.T) {
	t.Helper()
	if n.cmd == nil || n.cmd.ProcessState != nil {
		return
	}
	if err := n.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = n.cmd.Wait() // it was killed
}

// churn adds, changes, replaces and removes that number of manifests at random. Steady
// pods are only changed.
func (n *node) churn(t *testing.T, changes int) {
	t.Helper()
	for range changes {
		switch name := fmt.Sprintf("pod-%d", rand.N(20)); rand.N(6) {
		case 0:
			n.remove(t, name)
		case 1:
			n.write(t, steadyNames[rand.N(2)])
		default:
			n.write(t, name)
		}
	}
}

// write writes a manifest in one step. The pod of a name that ends with an odd number or a
// letter is updated. Other pods are replaced by a pod with another UID.
func (n *node) write(t *testing.T, name string) {
	t.Helper()
	n.step++
	uid := ""
	if !strings.ContainsRune("02468", rune(name[len(name)-1])) {
		uid = fmt.Sprintf("%s-%s", filepath.Base(n.dir), name)
	}
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  uid: %q
  labels: {app: web, version: "%d"}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: "%s"
    prometheus.io/path: /metrics/%[1]s
spec:
  containers:
  - name: c
    image: %[5]s
    ports: [{name: metrics, containerPort: 8080}]
`, name, uid, n.step, n.target, components.Image)
	temp := filepath.Join(n.dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, n.path(name)); err != nil {
		t.Fatal(err)
	}
}

func (n *node) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(n.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func (n *node) path(name string) string { return filepath.Join(n.dir, "manifests", name+".yaml") }

// pods returns /pods, if the daemon has read all manifests and knows the current state of
// the steady pods.
func (n *node) pods() ([]v1.Pod, error) {
	files, err := filepath.Glob(n.path("*"))
	if err != nil {
		return nil, err
	}
	list, err := n.client.Pods(context.Background())
	if err != nil {
		return nil, err
	}
	if len(list.Items) != len(files) {
		return nil, fmt.Errorf("/pods has %d pods, the directory %d manifests", len(list.Items), len(files))
	}
	for i := range list.Items {
		p := &list.Items[i]
		n.known[string(p.UID)] = "k8s.pod.uid"
		if p.Status.PodIP != "" {
			n.known[p.Status.PodIP] = "k8s.pod.ip"
		}
		data, err := os.ReadFile(n.path(strings.TrimSuffix(p.Name, "-node1")))
		if err != nil {
			return nil, err
		}
		if want := fmt.Sprintf("version: %q", p.Labels["version"]); !strings.Contains(string(data), want) {
			return nil, fmt.Errorf("/pods has an earlier version of %s: %s", p.Name, want)
		}
		if r := n.steady[strings.TrimSuffix(p.Name, "-node1")]; r != nil {
			if err := r.shown(p); err != nil {
				return nil, err
			}
		}
	}
	return list.Items, nil
}

// config copies a configuration from testdata, with the addresses and the folder of this
// node instead of those for users, and with other replacements, and returns its path.
func (n *node) config(t *testing.T, name string, replace ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	replace = append(replace, "127.0.0.1:10255", n.http, "127.0.0.1:10250", n.https, "/etc/podconfigd", n.dir)
	text := strings.NewReplacer(replace...).Replace(string(data))
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
