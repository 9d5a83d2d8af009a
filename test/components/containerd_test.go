package components

import (
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestContainerds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts containerd")
	}
	for _, name := range Containerds {
		t.Run(name, func(t *testing.T) {
			r := StartRuntime(t, name)
			sandbox := r.Sandbox(t, "web", "uid")
			id := r.Create(t, sandbox, "web", "uid", "c", "exit", "3")
			r.StartContainer(t, id)
			exited := func() error {
				resp, err := r.CRI.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
				if err != nil {
					return err
				}
				if state, code := resp.GetStatus().GetState(), resp.GetStatus().GetExitCode(); state != runtimeapi.ContainerState_CONTAINER_EXITED || code != 3 {
					return fmt.Errorf("it is %v with exit code %d", state, code)
				}
				return nil
			}
			await(t, "the exit code", 10*time.Second, exited)
			r.Kill(t) // its shims live on
			r.Start(t)
			r.Await(t)
			await(t, "the exit code after a restart", 10*time.Second, exited)
		})
	}
}
