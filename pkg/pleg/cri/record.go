package cri

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg/recorder"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

var _ recorder.Reader = (*Runtime)(nil)

// Record requests the status of sandboxes and containers. It leaves out those that are gone. The records stay in memory, so
// it also leaves out the fields that no status needs.
//
// kubelet: pkg/kubelet/kuberuntime/kuberuntime_manager.go GetPodStatus.
func (r *Runtime) Record(ctx context.Context, sandboxIDs, containerIDs []string) (*podstatus.Record, string, error) {
	record := new(podstatus.Record)
	for _, id := range sandboxIDs {
		resp, err := r.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("requesting the status of sandbox %s: %w", id, err)
		}
		if s := resp.GetStatus(); s != nil {
			s.Labels, s.Annotations = nil, nil
			record.Sandboxes = append(record.Sandboxes, s)
		}
	}
	for _, id := range containerIDs {
		resp, err := r.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("requesting the status of container %s: %w", id, err)
		}
		if c := resp.GetStatus(); c != nil {
			record.Containers = append(record.Containers, trim(c))
		}
	}
	name, err := r.Name(ctx) // after the requests: they may have connected to another runtime
	if err != nil {
		return nil, "", err
	}
	return record, name, nil
}

// trim leaves out what no status needs: all labels but the name of the container, and all mounts that are not read-only.
func trim(c *runtimeapi.ContainerStatus) *runtimeapi.ContainerStatus {
	if name := c.GetLabels()[containerNameLabel]; name != "" {
		c.Labels = map[string]string{containerNameLabel: name}
	} else {
		c.Labels = nil
	}
	var mounts []*runtimeapi.Mount
	for _, m := range c.GetMounts() {
		if m.GetReadonly() {
			mounts = append(mounts, &runtimeapi.Mount{ContainerPath: m.GetContainerPath(), Readonly: true, RecursiveReadOnly: m.GetRecursiveReadOnly()})
		}
	}
	c.Mounts = mounts
	return c
}

// Version returns the name and the version of the runtime, such as "containerd://2.4.0".
//
// kubelet: pkg/kubelet/nodestatus/setters.go VersionInfo.
func (r *Runtime) Version(ctx context.Context) (string, error) {
	resp, err := r.client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("requesting the version of the runtime: %w", err)
	}
	return resp.GetRuntimeName() + "://" + resp.GetRuntimeVersion(), nil
}

// Name returns the name of the runtime, such as "containerd".
func (r *Runtime) Name(ctx context.Context) (string, error) {
	if name := r.name.Load(); name != nil {
		return *name, nil
	}
	resp, err := r.client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("requesting the version of the runtime: %w", err)
	}
	name := resp.GetRuntimeName()
	r.name.Store(&name)
	return name, nil
}
