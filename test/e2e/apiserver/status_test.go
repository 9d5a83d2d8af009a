package apiserver

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Beside an apiserver, the status that a kubelet wrote counts. A static pod has the status of its
// mirror pod, and an API pod has its own. Until a kubelet writes one, an API pod can have the
// status from the runtime.
func statusBesideAKubelet(t *testing.T, c *cluster) {
	r := components.StartRuntime(t, components.Containerd)
	c.addNode(t, "status")
	d := c.daemon(t, "status", c.kubeconfig(t), "--container-runtime-endpoint", r.Socket, "--runtime-status-api-pods")
	d.PutFile(t, "web", e2e.HostManifest)
	c.addPod(t, "job", "status")
	var static, job *v1.Pod
	testutil.Until(t, "both pods are there", func() bool {
		list, err := d.Client.Pods(t.Context())
		if err != nil {
			return false
		}
		for i := range list.Items {
			switch p := &list.Items[i]; p.Name {
			case "web-status":
				static = p
			case "job":
				job = p
			}
		}
		return static != nil && job != nil
	})
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	of := func(name, source string, want func(*v1.PodStatus) bool) func(*v1.Pod) bool {
		return func(p *v1.Pod) bool {
			return p.Name == name && p.Annotations[config.ConfigSourceAnnotationKey] == source && want(&p.Status)
		}
	}

	sandbox := r.Sandbox(t, "job", string(job.UID))
	id := r.Create(t, sandbox, "job", string(job.UID), "c", "pause")
	r.StartContainer(t, id)
	s.Shown(t, "the container of an API pod", of("job", "api", func(status *v1.PodStatus) bool {
		return len(status.ContainerStatuses) == 1 && strings.HasSuffix(status.ContainerStatuses[0].ContainerID, id)
	}))
	written := `{"status": {"phase": "Failed", "startTime": "2026-01-02T03:04:05Z", "podIP": "198.51.100.9", "podIPs": [{"ip": "198.51.100.9"}]}}`
	if err := c.patch(t.Context(), "job", written, "status"); err != nil {
		t.Fatal(err)
	}
	s.Shown(t, "the kubelet's status of an API pod", of("job", "api", func(status *v1.PodStatus) bool {
		return status.Phase == v1.PodFailed && len(status.ContainerStatuses) == 0
	}))

	mirror := newPod("web-status", "status")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: static.Annotations[config.ConfigHashAnnotationKey]}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), mirror, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.patch(t.Context(), "web-status", written, "status"); err != nil {
		t.Fatal(err)
	}
	s.Shown(t, "the kubelet's status of a static pod", of("web-status", "file", func(status *v1.PodStatus) bool {
		return status.Phase == v1.PodFailed && status.PodIP == "198.51.100.9"
	}))
	if err := c.delete(t.Context(), "web-status", 0); err != nil {
		t.Fatal(err)
	}
	s.Shown(t, "our status of a static pod", of("web-status", "file", func(status *v1.PodStatus) bool {
		return status.Phase == v1.PodPending && status.PodIP != "198.51.100.9"
	}))
}
