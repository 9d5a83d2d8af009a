package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels with which crirunner finds its sandboxes and containers, and the annotation
// with the version of a container.
const (
	ownerKey     = "crirunner"
	namespaceKey = "io.kubernetes.pod.namespace"
	nameKey      = "io.kubernetes.pod.name"
	uidKey       = "io.kubernetes.pod.uid"
	containerKey = "io.kubernetes.container.name"
	hashKey      = "crirunner/hash"
)

// runtime is the container runtime.
type runtime struct {
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
}

// sandboxes returns the sandboxes of all pods with that name, newest first.
func (r *runtime) sandboxes(ctx context.Context, name types.NamespacedName) ([]*runtimeapi.PodSandbox, error) {
	resp, err := r.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{ownerKey: "true", namespaceKey: name.Namespace, nameKey: name.Name},
	}})
	if err != nil {
		return nil, fmt.Errorf("listing the sandboxes of %s: %w", name, err)
	}
	slices.SortFunc(resp.Items, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()) })
	return resp.GetItems(), nil
}

func sandboxConfig(pod *v1.Pod, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		Labels:   map[string]string{ownerKey: "true", namespaceKey: pod.Namespace, nameKey: pod.Name, uidKey: string(pod.UID)},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: hostNetwork}},
	}
}

// hostNetwork are the namespaces of sandboxes and containers.
var hostNetwork = &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}

func (r *runtime) runSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig) (id string, err error) {
	resp, err := r.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("running the sandbox: %w", err)
	}
	return resp.GetPodSandboxId(), nil
}

// newest returns the newest container with that name in the sandbox, or nil if there is
// none.
func (r *runtime) newest(ctx context.Context, sandbox, name string) (*runtimeapi.ContainerStatus, error) {
	resp, err := r.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		PodSandboxId: sandbox, LabelSelector: map[string]string{containerKey: name},
	}})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	if len(resp.GetContainers()) == 0 {
		return nil, nil //nolint:nilnil // as is said above
	}
	newest := slices.MaxFunc(resp.GetContainers(), func(a, b *runtimeapi.Container) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) })
	status, err := r.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: newest.GetId()})
	if err != nil {
		return nil, fmt.Errorf("requesting the status of container %s: %w", name, err)
	}
	return status.GetStatus(), nil
}

// start creates and starts a container. It pulls the image if it is missing.
func (r *runtime) start(ctx context.Context, pod *v1.Pod, c *v1.Container, attempt uint32, sandbox string, config *runtimeapi.PodSandboxConfig) error {
	image := &runtimeapi.ImageSpec{Image: c.Image}
	if resp, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image}); err != nil {
		return fmt.Errorf("requesting image %s: %w", c.Image, err)
	} else if resp.GetImage() == nil {
		if _, err := r.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: image, SandboxConfig: config}); err != nil {
			return fmt.Errorf("pulling image %s: %w", c.Image, err)
		}
	}
	created, err := r.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config, Config: containerConfig(pod, c, attempt),
	})
	if err != nil {
		return fmt.Errorf("creating container %s: %w", c.Name, err)
	}
	if _, err := r.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
		return fmt.Errorf("starting container %s: %w", c.Name, err)
	}
	return nil
}

func containerConfig(pod *v1.Pod, c *v1.Container, attempt uint32) *runtimeapi.ContainerConfig {
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: c.Image},
		Command:  c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		Labels:      map[string]string{containerKey: c.Name, namespaceKey: pod.Namespace, nameKey: pod.Name, uidKey: string(pod.UID)},
		Annotations: map[string]string{hashKey: hash(c)},
		Linux:       &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork}},
	}
	for _, env := range c.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: env.Name, Value: []byte(env.Value)})
	}
	return config
}

// hash returns a hash of the container spec.
func hash(c *v1.Container) string {
	data, _ := json.Marshal(c) // it came as JSON
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// remove stops and removes a sandbox and its containers.
func (r *runtime) remove(ctx context.Context, sandbox string, grace int64) error {
	containers, err := r.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: sandbox}})
	if err != nil {
		return fmt.Errorf("listing containers to remove: %w", err)
	}
	for _, c := range containers.GetContainers() {
		if err := r.removeContainer(ctx, c.GetId(), grace); err != nil {
			return err
		}
	}
	if _, err := r.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return fmt.Errorf("stopping a sandbox: %w", err)
	}
	if _, err := r.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return fmt.Errorf("removing a sandbox: %w", err)
	}
	return nil
}

func (r *runtime) removeContainer(ctx context.Context, id string, grace int64) error {
	if _, err := r.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace}); err != nil {
		return fmt.Errorf("stopping container %s: %w", id, err)
	}
	if _, err := r.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("removing container %s: %w", id, err)
	}
	return nil
}
