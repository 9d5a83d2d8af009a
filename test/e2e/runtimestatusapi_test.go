package e2e

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/components"
)

// Beside an apiserver, the status that a kubelet wrote counts: that of a mirror pod for its
// static pod, and that of an API pod. Until a kubelet writes it, an API pod can have the status
// from the runtime.
func TestStatusBesideAnApiserver(t *testing.T) {
	c := startCluster(t)
	t.Parallel()
	r := components.StartRuntime(t, components.Containerd)
	c.addNode(t, "node1")
	d := c.daemon(t, "node1", c.kubeconfig(t), "--container-runtime-endpoint", r.Socket, "--runtime-status-api-pods")
	d.putFile(t, "web", hostManifest)
	c.addPod(t, "job", "node1")
	var static, job *v1.Pod
	testutil.Until(t, "both pods are there", func() bool {
		list, err := d.client.Pods(t.Context())
		if err != nil {
			return false
		}
		for i := range list.Items {
			switch p := &list.Items[i]; p.Name {
			case "web-node1":
				static = p
			case "job":
				job = p
			}
		}
		return static != nil && job != nil
	})
	s := d.watch(t, client.Options{})
	syncUp(t, s)
	of := func(name, source string, want func(*v1.PodStatus) bool) func(*v1.Pod) bool {
		return func(p *v1.Pod) bool {
			return p.Name == name && p.Annotations[config.ConfigSourceAnnotationKey] == source && want(&p.Status)
		}
	}

	sandbox := r.Sandbox(t, "job", string(job.UID))
	id := r.Create(t, sandbox, "job", string(job.UID), "c", "pause")
	r.StartContainer(t, id)
	s.shown(t, "the container of an API pod", of("job", "api", func(status *v1.PodStatus) bool {
		return len(status.ContainerStatuses) == 1 && strings.HasSuffix(status.ContainerStatuses[0].ContainerID, id)
	}))
	written := `{"status": {"phase": "Failed", "startTime": "2026-01-02T03:04:05Z", "podIP": "198.51.100.9", "podIPs": [{"ip": "198.51.100.9"}]}}`
	if err := c.patch(t.Context(), "job", written, "status"); err != nil {
		t.Fatal(err)
	}
	s.shown(t, "the kubelet's status of an API pod", of("job", "api", func(status *v1.PodStatus) bool {
		return status.Phase == v1.PodFailed && len(status.ContainerStatuses) == 0
	}))

	mirror := newPod("web-node1", "node1")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: static.Annotations[config.ConfigHashAnnotationKey]}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), mirror, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.patch(t.Context(), "web-node1", written, "status"); err != nil {
		t.Fatal(err)
	}
	s.shown(t, "the kubelet's status of a static pod", of("web-node1", "file", func(status *v1.PodStatus) bool {
		return status.Phase == v1.PodFailed && status.PodIP == "198.51.100.9"
	}))
	if err := c.delete(t.Context(), "web-node1", 0); err != nil {
		t.Fatal(err)
	}
	s.shown(t, "our status of a static pod", of("web-node1", "file", func(status *v1.PodStatus) bool {
		return status.Phase == v1.PodPending && status.PodIP != "198.51.100.9"
	}))
}
