package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/components"
)

// nodeKubeconfig writes a kubeconfig with the identity of a node, and returns its path.
func (c *cluster) nodeKubeconfig(t *testing.T, node string) string {
	t.Helper()
	return c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), "system:node:"+node, "system:nodes")
}

// ctl runs the real kubectl with all rights.
func (c *cluster) ctl(t *testing.T, admin string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), components.Kubectl(t), append([]string{"--kubeconfig", admin}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// mirror waits until the apiserver has the mirror pod that the function wants, and returns it.
func (c *cluster) mirror(t *testing.T, name, what string, want func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	var found *v1.Pod
	testutil.Until(t, "the mirror pod "+name+", "+what, func() bool {
		pod, err := c.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		found = pod
		return err == nil && want(pod)
	})
	return found
}

func exists(*v1.Pod) bool { return true }

// With the identity of the node and the admission plugins of a real cluster, kubectl shows the
// static pods of a node without a kubelet, with the status of their containers.
func TestMirrorPods(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and containerd")
	}
	t.Parallel()
	c := &cluster{components.Start(t, components.Admission...)}
	r := components.StartRuntime(t, components.Containerd)
	admin := c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "admin"), "admin", "system:masters")
	c.addNode(t, "mirror1")
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), "mirror1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := c.nodeKubeconfig(t, "mirror1")
	args := []string{"--create-mirror-pods", "--container-runtime-endpoint", r.Socket, "--node-ip", "192.0.2.7"}
	d := c.daemon(t, "mirror1", kubeconfig, args...)
	d.putFile(t, "web", hostManifest)
	made := c.mirror(t, "web-mirror1", "after its file", exists)
	if owner := made.OwnerReferences; len(owner) != 1 || owner[0].UID != node.UID || owner[0].Controller == nil || !*owner[0].Controller || made.Annotations[config.OwnMirrorAnnotationKey] == "" {
		t.Errorf("the mirror pod has owners %v, annotations %v", owner, made.Annotations)
	}
	uid := made.Annotations[v1.MirrorPodAnnotationKey]
	sandbox := r.Sandbox(t, "web-mirror1", uid)
	r.StartContainer(t, r.Create(t, sandbox, "web-mirror1", uid, "c", "pause"))
	c.mirror(t, "web-mirror1", "with the status of its container", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodRunning && p.Status.PodIP == "192.0.2.7" && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	out := c.ctl(t, admin, "get", "pods", "-A", "-o", "wide")
	if !regexp.MustCompile(`(?m)^default +web-mirror1 +1/1 +Running +0 +\S+ +192\.0\.2\.7 +mirror1 `).MatchString(out) ||
		!regexp.MustCompile(`(?m)^default +static-mirror1 +0/1 +\S+ +0 +\S+ +<none> +mirror1 `).MatchString(out) {
		t.Errorf("kubectl shows\n%s", out)
	}

	// After a restart, the mirror pods are adopted.
	d = d.again(t, func() {}, append([]string{"--kubeconfig", kubeconfig, "--hostname-override", "mirror1"}, args...)...)
	testutil.Until(t, "both mirror pods in the status", func() bool {
		status, err := d.client.Status(t.Context())
		return err == nil && status.MirrorPods != nil && status.MirrorPods.Pods == 2
	})
	if again := c.mirror(t, "web-mirror1", "after a restart", exists); again.UID != made.UID || again.Status.Phase != v1.PodRunning {
		t.Errorf("after a restart, the mirror pod has UID %s, before %s; the phase is %s", again.UID, made.UID, again.Status.Phase)
	}

	// A manifest that changes replaces the mirror pod, one that goes deletes it.
	d.putFile(t, "web", strings.Replace(hostManifest, "metadata: {", "metadata: {labels: {version: two}, ", 1))
	c.mirror(t, "web-mirror1", "of the new manifest", func(p *v1.Pod) bool { return p.UID != made.UID && p.Labels["version"] == "two" })
	if err := os.Remove(filepath.Join(d.dir, "manifests", "web.yaml")); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "no mirror pod", func() bool {
		_, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "web-mirror1", metav1.GetOptions{})
		return err != nil
	})
}
