package cri_test

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/test/components"
)

// containerd has no event for this.
func TestAContainerThatCannotBeStarted(t *testing.T) {
	each(t, func(t *testing.T, r *components.Runtime, name string) {
		t.Helper()
		w := watch(t, r.Socket, pleg.Options{})
		w.mode(t, name)
		sandbox := r.Sandbox(t, "p", "uid")
		w.await(t, "Started uid/sandbox")
		created, err := r.CRI.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
			PodSandboxId:  sandbox,
			SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "default", Uid: "uid"}},
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
				Image:    &runtimeapi.ImageSpec{Image: components.Image}, Command: []string{"/nowhere"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.CRI.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()})
		if err == nil {
			t.Fatal("it was started")
		}
		w.await(t, "Died uid/c 128")
	})
}
