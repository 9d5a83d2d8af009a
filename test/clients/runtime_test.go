package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// containerd is a containerd that gives each sandbox an IP of its own.
type containerd struct{ *components.Runtime }

// cniConfig and cniPlugin are a network without interfaces. Nothing is sent to the IPs.
// containerd sets up loopback with a plugin, too.
const (
	cniConfig = `{"cniVersion": "1.0.0", "name": "ips", "plugins": [{"type": "ips"}]}`
	cniPlugin = `#!/bin/sh
cat >/dev/null
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}' ;;
ADD)
	n=1
	while ! mkdir "$0.$n" 2>/dev/null; do n=$((n + 1)); done
	echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "'$CNI_IFNAME'", "sandbox": "'$CNI_NETNS'"}],
		"ips": [{"interface": 0, "address": "127.20.'$((n / 250)).$((n % 250 + 1))'/16"}]}'
	;;
esac
`
)

func startContainerd(t *testing.T) *containerd {
	t.Helper()
	r := &containerd{components.StartRuntime(t, components.Containerd)}
	dir := filepath.Dir(r.Socket)
	for path, text := range map[string]string{"ips": cniPlugin, "loopback": cniPlugin, "cni/10-ips.conflist": cniConfig} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, func() error {
		status, err := r.CRI.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range status.GetStatus().GetConditions() {
			if c.GetType() == runtimeapi.NetworkReady && !c.GetStatus() {
				return fmt.Errorf("%s: %s", c.GetType(), c.GetMessage())
			}
		}
		return nil
	})
	return r
}

// running is the container of a pod in the runtime.
type running struct {
	config      *runtimeapi.PodSandboxConfig
	sandbox, ip string
	container   string
	attempts    uint32
}

// run runs a sandbox and a container, as the kubelet would for the pod.
func (r *containerd) run(t *testing.T, p *v1.Pod) *running {
	t.Helper()
	pod := &running{config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: string(p.UID)},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}}
	resp, err := r.CRI.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: pod.config})
	if err != nil {
		t.Fatal(err)
	}
	pod.sandbox = resp.GetPodSandboxId()
	status, err := r.CRI.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod.sandbox})
	if err != nil {
		t.Fatal(err)
	}
	if pod.ip = status.GetStatus().GetNetwork().GetIp(); pod.ip == "" {
		t.Fatalf("the sandbox has no IP: %v", status)
	}
	r.restart(t, pod)
	return pod
}

// restart kills the container, if it runs, and starts another one.
func (r *containerd) restart(t *testing.T, pod *running) {
	t.Helper()
	if pod.container != "" {
		r.KillContainer(t, pod.container, syscall.SIGKILL)
		r.ExitCode(t, pod.container)
		pod.attempts++
	}
	resp, err := r.CRI.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: pod.sandbox, SandboxConfig: pod.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: pod.attempts},
			Image:    &runtimeapi.ImageSpec{Image: components.Image},
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: pod.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	pod.container = resp.GetContainerId()
	r.StartContainer(t, pod.container)
}

// shown returns an error if the pod's status does not have the IP and the container.
func (r *running) shown(p *v1.Pod) error {
	if p.Status.PodIP != r.ip {
		return fmt.Errorf("%s has the IP %q, in the runtime %q", p.Name, p.Status.PodIP, r.ip)
	}
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; c.State.Running != nil && strings.HasSuffix(c.ContainerID, "://"+r.container) {
			return nil
		}
	}
	return fmt.Errorf("%s does not have the container %s: %v", p.Name, r.container, p.Status.ContainerStatuses)
}
