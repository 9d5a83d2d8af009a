package cri

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/pleg/recorder"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// The labels with which a kubelet marks containers. Those of the pod are used only if the sandbox of the container is gone.
//
// kubelet: k8s.io/kubelet/pkg/types/labels.go.
const (
	podUIDLabel       = "io.kubernetes.pod.uid"
	podNameLabel      = "io.kubernetes.pod.name"
	podNamespaceLabel = "io.kubernetes.pod.namespace"

	containerNameLabel = "io.kubernetes.container.name"
)

// uidOf returns the UID of the pod of a sandbox. Other clients of CRI than a kubelet can leave it empty. Then each sandbox is a
// pod of its own.
func uidOf(m *runtimeapi.PodSandboxMetadata, sandboxID string) string {
	return cmp.Or(m.GetUid(), sandboxID)
}

// group groups sandboxes and containers by pod.
func group(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) []*pleg.Pod {
	pods := make([]*pleg.Pod, 0, len(sandboxes))
	byUID := make(map[types.UID]*pleg.Pod, len(sandboxes))
	bySandbox := make(map[string]*pleg.Pod, len(sandboxes))
	pod := func(uid, namespace, name string) *pleg.Pod {
		p := byUID[types.UID(uid)]
		if p == nil {
			p = &pleg.Pod{UID: types.UID(uid), Namespace: namespace, Name: name}
			byUID[p.UID] = p
			pods = append(pods, p)
		}
		return p
	}
	for _, s := range sandboxes {
		m := s.GetMetadata()
		if m == nil {
			continue
		}
		p := pod(uidOf(m, s.GetId()), m.GetNamespace(), m.GetName())
		p.Source = cmp.Or(p.Source, s.GetAnnotations()[config.ConfigSourceAnnotationKey])
		bySandbox[s.GetId()] = p
		p.Containers = append(p.Containers, pleg.Container{
			ID: s.GetId(), Sandbox: true, SandboxID: s.GetId(), State: sandboxState(s.GetState()),
			Attempt: m.GetAttempt(), CreatedAt: time.Unix(0, s.GetCreatedAt()),
		})
	}
	for _, c := range containers {
		p := bySandbox[c.GetPodSandboxId()]
		if labels := c.GetLabels(); p == nil && labels[podUIDLabel] != "" {
			p = pod(labels[podUIDLabel], labels[podNamespaceLabel], labels[podNameLabel])
		}
		if p == nil {
			continue // it belongs to no pod
		}
		p.Containers = append(p.Containers, pleg.Container{
			ID: c.GetId(), Name: c.GetMetadata().GetName(), SandboxID: c.GetPodSandboxId(), State: containerState(c.GetState()),
			Attempt: c.GetMetadata().GetAttempt(), CreatedAt: time.Unix(0, c.GetCreatedAt()),
		})
	}
	return pods
}

// timeOf returns a time of the runtime; zero if it does not know it.
func timeOf(nanoseconds int64) time.Time {
	if nanoseconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

func sandboxState(s runtimeapi.PodSandboxState) pleg.State {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return pleg.StateRunning
	}
	return pleg.StateExited
}

func containerState(s runtimeapi.ContainerState) pleg.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return pleg.StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return pleg.StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return pleg.StateExited
	}
	return pleg.StateUnknown
}

var eventTypes = map[runtimeapi.ContainerEventType]pleg.RuntimeEventType{
	runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT: pleg.EventCreated,
	runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT: pleg.EventStarted,
	runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT: pleg.EventStopped,
	runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT: pleg.EventDeleted,
}

// convertEvent converts an event. It returns false for an unknown type.
func convertEvent(e *runtimeapi.ContainerEventResponse) (pleg.RuntimeEvent, bool) {
	kind, known := eventTypes[e.GetContainerEventType()]
	event := pleg.RuntimeEvent{Type: kind, ContainerID: e.GetContainerId(), At: timeOf(e.GetCreatedAt())}
	s := e.GetPodSandboxStatus()
	m := s.GetMetadata()
	if m == nil {
		return event, known // the sandbox is gone
	}
	event.Pod = &pleg.Pod{
		UID: types.UID(uidOf(m, s.GetId())), Namespace: m.GetNamespace(), Name: m.GetName(),
		Source: s.GetAnnotations()[config.ConfigSourceAnnotationKey],
		Containers: []pleg.Container{{
			ID: s.GetId(), Sandbox: true, SandboxID: s.GetId(), State: sandboxState(s.GetState()),
			Attempt: m.GetAttempt(), CreatedAt: time.Unix(0, s.GetCreatedAt()),
		}},
	}
	for _, c := range e.GetContainersStatuses() {
		container := pleg.Container{
			ID: c.GetId(), Name: c.GetMetadata().GetName(), SandboxID: s.GetId(), State: containerState(c.GetState()),
			Attempt: c.GetMetadata().GetAttempt(), CreatedAt: time.Unix(0, c.GetCreatedAt()), StartedAt: timeOf(c.GetStartedAt()),
		}
		if container.State == pleg.StateExited {
			code := c.GetExitCode()
			container.ExitCode, container.FinishedAt = &code, timeOf(c.GetFinishedAt())
		}
		event.Pod.Containers = append(event.Pod.Containers, container)
	}
	return event, known
}

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
