package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// imageName is the image that the DaemonSet names.
const imageName = "ghcr.io/podconfigd/podconfigd:latest"

// deploy applies a kustomization with a free port, and returns its DaemonSet. User agents of
// containers of other tests have the ports of the file.
func deploy(t *testing.T, c *cluster, dir string) *rendered {
	t.Helper()
	_, port, _ := strings.Cut(components.FreeAddress(t), ":")
	text := strings.ReplaceAll(render(t, dir), "10265", port)
	if out, err := c.kubectl(t, text, "apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return objects(t, text)
}

// daemonPod is the pod of the DaemonSet on a node.
type daemonPod struct {
	*running
	container *v1.Container
	id        string // of the container
	client    *client.Client
}

// runDaemon runs the pod of the DaemonSet, and waits until its probes succeed.
func (n *node) runDaemon(t *testing.T, r *rendered) *daemonPod {
	t.Helper()
	p := &daemonPod{running: n.run(t, r.daemonSet.Namespace, &r.daemonSet.Spec.Template), client: client.New(n.path("run/podconfigd/podconfigd.sock"))}
	p.container = &p.pod.Spec.Containers[0]
	p.id = p.start(t, p.container)
	for _, probe := range []*v1.Probe{p.container.LivenessProbe, p.container.ReadinessProbe} {
		testutil.Eventually(t, func() error { return p.probe(t, p.container, probe) })
	}
	return p
}

// putManifest writes a manifest on the host.
func (n *node) putManifest(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	dir := n.path("etc/kubernetes/manifests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(n.host, name)
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: i}]}\n", name)
	if err := os.WriteFile(temp, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(dir, name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// The DaemonSet's pod runs without root and without a capability. What it serves reaches the host
// and other pods, and goes on across a restart.
func runsWithoutRoot(t *testing.T, c *cluster) {
	testutil.Long(t)
	n := c.node(t, "node1")
	n.putManifest(t, "web", 0o644)
	n.putManifest(t, "secret", 0o600)
	r := deploy(t, c, folder(t, plain))
	p := n.runDaemon(t, r)

	config, _ := image(t)
	if pod := p.pod.Spec.SecurityContext; config.User != fmt.Sprintf("%d:%d", *pod.RunAsUser, *pod.RunAsGroup) {
		t.Errorf("the image is for the user %q, and the DaemonSet for %d:%d", config.User, *pod.RunAsUser, *pod.RunAsGroup)
	}
	t.Run("process", func(t *testing.T) {
		expectProcess(t, p.PID(t, p.id), map[string]string{
			"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "Groups": "65532", "NoNewPrivs": "1", "Seccomp": "2",
			"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		})
	})
	t.Run("pods", func(t *testing.T) {
		expectPods(t, p.client, p.pod.Name+" api", "web-node1 file")
		status, err := p.client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%+v", status.Sources[1].File.Manifests); !strings.Contains(got, "secret.yaml") || !strings.Contains(got, "permission denied") {
			t.Errorf("the status does not name the manifest that can't be read: %s", got)
		}
	})
	for name, agent := range map[string]struct {
		security *v1.PodSecurityContext
		want     string
		code     int32
	}{
		"with the group":    {&v1.PodSecurityContext{RunAsUser: new(int64(1000)), SupplementalGroups: []int64{65532}}, "pod/web-node1\n", 0},
		"without the group": {&v1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000))}, "permission denied", 1},
		"as the image says": {nil, "pod/web-node1\n", 0},
	} {
		t.Run("another pod "+name, func(t *testing.T) { n.agent(t, r, agent.security, agent.want, agent.code) })
	}
	t.Run("restart", func(t *testing.T) { n.restart(t, r, p) })
}

// restart replaces the pod, as an update of the DaemonSet does. A subscriber resumes.
func (n *node) restart(t *testing.T, r *rendered, p *daemonPod) {
	t.Helper()
	updates := make(chan *v1alpha1.Update, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for u, err := range p.client.Updates(t.Context(), client.Options{Source: "file"}) {
			if err != nil {
				return
			}
			updates <- u
		}
	}()
	t.Cleanup(func() { <-done })
	await := func(op v1alpha1.Op, name string) {
		t.Helper()
		for {
			select {
			case u := <-updates:
				if u.Reset {
					t.Fatal("the subscriber starts again")
				}
				if u.Op == op && u.Pods[0].Name == name {
					return
				}
			case <-time.After(testutil.Patience):
				t.Fatalf("no %s %s for %v", op, name, testutil.Patience)
			}
		}
	}
	await(v1alpha1.OpAdd, "web-node1")
	p.stop(t, p.id)
	n.putManifest(t, "late", 0o644)
	n.runDaemon(t, r)
	await(v1alpha1.OpAdd, "late-node1")
}

// agent runs a command of the image in another pod, which mounts the directory of the socket.
func (n *node) agent(t *testing.T, r *rendered, security *v1.PodSecurityContext, want string, code int32) {
	t.Helper()
	container := v1.Container{
		Name: "agent", Image: imageName, Command: []string{"/podconfigctl", "get", "pods", "web-node1", "-o", "name"},
		VolumeMounts: []v1.VolumeMount{{Name: "podconfigd", MountPath: "/run/podconfigd"}},
	}
	directory := v1.HostPathDirectory
	agent := n.run(t, r.daemonSet.Namespace, &v1.PodTemplateSpec{Spec: v1.PodSpec{
		HostNetwork: true, SecurityContext: security, Containers: []v1.Container{container},
		Volumes: []v1.Volume{{Name: "podconfigd", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{
			Path: "/run/podconfigd", Type: &directory,
		}}}},
	}})
	id := agent.start(t, &container)
	got := n.ExitCode(t, id)
	if log := agent.log(t, "agent"); got != code || !strings.Contains(log, want) {
		t.Errorf("it ended with %d and said %q, want %d and %q", got, log, code, want)
	}
	agent.stop(t, id)
}

// With the kustomization for kubeadm, the daemon reads what root alone may read, and the runtime.
// It has no capability either.
func runsForKubeadm(t *testing.T, c *cluster) {
	testutil.Long(t)
	n := c.node(t, "node2")
	n.putManifest(t, "secret", 0o600)
	if err := os.MkdirAll(n.path("run/containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(n.Socket, n.path("run/containerd/containerd.sock")); err != nil {
		t.Fatal(err)
	}
	p := n.runDaemon(t, deploy(t, c, folder(t, kubeadm)))
	expectProcess(t, p.PID(t, p.id), map[string]string{
		"Uid": "0 0 0 0", "NoNewPrivs": "1", "Seccomp": "2", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000",
	})
	expectPods(t, p.client, p.pod.Name+" api", "secret-node2 file")
	testutil.Eventually(t, func() error {
		answer, err := p.client.Lookup(t.Context(), client.LookupQuery{PID: os.Getpid()})
		if err == nil {
			return fmt.Errorf("the test is in a pod: %+v", answer)
		}
		answer, err = p.client.Lookup(t.Context(), client.LookupQuery{PID: p.PID(t, p.id)})
		if err == nil && answer.Pods[0].Name != p.pod.Name {
			err = fmt.Errorf("the daemon is in %+v", answer.Pods)
		}
		return err
	})
}

// expectProcess compares lines of /proc/PID/status.
func expectProcess(t *testing.T, pid int, want map[string]string) {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		if expected, ok := want[key]; ok && strings.Join(strings.Fields(value), " ") != expected {
			t.Errorf("%s is %q, want %q", key, strings.TrimSpace(value), expected)
		}
	}
}

// expectPods waits for the pods, each as "name source".
func expectPods(t *testing.T, c *client.Client, want ...string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		list, err := c.Pods(t.Context())
		if err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			p := &list.Items[i]
			got = append(got, p.Name+" "+p.Annotations["kubernetes.io/config.source"])
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
}
