package components

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandbox runs a sandbox on the host's network, for a pod in the namespace default, and
// returns its ID.
func (r *Runtime) Sandbox(tb testing.TB, name, uid string) string {
	tb.Helper()
	return r.SandboxIn(tb, name, uid, "")
}

// SandboxIn starts a sandbox as Sandbox does, with the cgroup of the pod.
func (r *Runtime) SandboxIn(tb testing.TB, name, uid, cgroup string) string {
	tb.Helper()
	config := sandboxConfig(name, uid)
	config.Linux.CgroupParent = cgroup
	resp, err := r.CRI.RunPodSandbox(tb.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		tb.Fatalf("running sandbox %s: %v", name, err)
	}
	return resp.GetPodSandboxId()
}

func sandboxConfig(name, uid string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: namespaces,
		}},
	}
}

// namespaces are the host's network and, as in the kubelet, a PID namespace for each
// container. If containers share one, a runtime kills all other processes in it when one
// exits, which takes twice as long.
var namespaces = &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}

// Create creates a container in a sandbox of Sandbox, with the arguments of the Image's
// program, and returns its ID. It does not start it.
func (r *Runtime) Create(tb testing.TB, sandbox, podName, podUID, name string, args ...string) string {
	tb.Helper()
	return r.CreateAttempt(tb, sandbox, podName, podUID, name, 0, args...)
}

// CreateAttempt creates a container as Create does, after that number of earlier ones with
// the same name.
func (r *Runtime) CreateAttempt(tb testing.TB, sandbox, podName, podUID, name string, attempt uint32, args ...string) string {
	tb.Helper()
	resp, err := r.CRI.CreateContainer(tb.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: sandboxConfig(podName, podUID),
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: Image}, Args: args,
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: namespaces,
			}},
		},
	})
	if err != nil {
		tb.Fatalf("creating container %s/%s: %v", podName, name, err)
	}
	return resp.GetContainerId()
}

// StartContainer starts a container.
func (r *Runtime) StartContainer(tb testing.TB, id string) {
	tb.Helper()
	if _, err := r.CRI.StartContainer(tb.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		tb.Fatalf("starting container %s: %v", id, err)
	}
}

// RemoveContainer removes a container in any state.
func (r *Runtime) RemoveContainer(tb testing.TB, id string) {
	tb.Helper()
	if _, err := r.CRI.RemoveContainer(tb.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		tb.Fatalf("removing container %s: %v", id, err)
	}
}

// RemoveSandbox removes a sandbox and its containers.
func (r *Runtime) RemoveSandbox(tb testing.TB, id string) {
	tb.Helper()
	if err := r.removeSandbox(tb.Context(), id); err != nil {
		tb.Fatalf("removing sandbox %s: %v", id, err)
	}
}

// PID returns the first process ID of a container.
func (r *Runtime) PID(tb testing.TB, id string) int {
	tb.Helper()
	resp, err := r.CRI.ContainerStatus(tb.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		tb.Fatalf("asking for the process of container %s: %v", id, err)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(resp.GetInfo()["info"]), &info); err != nil || info.PID <= 1 {
		tb.Fatalf("container %s has no process (%v): %s", id, err, resp.GetInfo()["info"])
	}
	return info.PID
}

// SandboxPID returns the PID of a sandbox's process.
func (r *Runtime) SandboxPID(tb testing.TB, id string) int {
	tb.Helper()
	resp, err := r.CRI.PodSandboxStatus(tb.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		tb.Fatalf("asking for the process of sandbox %s: %v", id, err)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(resp.GetInfo()["info"]), &info); err != nil || info.PID <= 1 {
		tb.Fatalf("the process of sandbox %s in %v: %v", id, resp.GetInfo(), err)
	}
	return info.PID
}

// ExitCode waits until a container has exited and returns its exit code.
func (r *Runtime) ExitCode(tb testing.TB, id string) (code int32) {
	tb.Helper()
	await(tb, "the exit of container "+id, func() error {
		resp, err := r.CRI.ContainerStatus(tb.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if state := resp.GetStatus().GetState(); err == nil && state != runtimeapi.ContainerState_CONTAINER_EXITED {
			err = fmt.Errorf("it is %v", state)
		}
		code = resp.GetStatus().GetExitCode()
		return err
	})
	return code
}

// KillContainer sends a signal to the first process of a container.
func (r *Runtime) KillContainer(tb testing.TB, id string, signal syscall.Signal) {
	tb.Helper()
	if err := syscall.Kill(r.PID(tb, id), signal); err != nil {
		tb.Fatalf("killing container %s: %v", id, err)
	}
}
