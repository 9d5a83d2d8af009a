package podstatus

import (
	"cmp"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Reasons of the states of containers, and the exit code of a container whose end is not known.
//
// kubelet: pkg/kubelet/kubelet_pods.go, pkg/kubelet/container/runtime.go.
const (
	podInitializing               = "PodInitializing"
	containerCreating             = "ContainerCreating"
	restartingAllContainers       = "RestartingAllContainers"
	containerStatusUnknown        = "ContainerStatusUnknown"
	exitCodeOfUnknown       int32 = 137
)

// kind says which list of the pod has a container.
type kind int

const (
	regular kind = iota
	initial
	ephemeral
)

// containerStatuses returns the statuses of containers. Init containers have the order of the pod. All others are ordered by
// name. It returns nil if there are no containers.
//
// kubelet: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses.
func (g *generator) containerStatuses(containers []v1.Container, old []v1.ContainerStatus, kind kind, restarting bool) []v1.ContainerStatus {
	var statuses []v1.ContainerStatus
	for i := range containers {
		container := &containers[i]
		status := g.containerStatus(container, findStatus(old, container.Name), kind, restarting)
		statuses = append(statuses, *status)
	}
	if kind != initial {
		slices.SortStableFunc(statuses, func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	return statuses
}

func (g *generator) containerStatus(container *v1.Container, old *v1.ContainerStatus, kind kind, restarting bool) *v1.ContainerStatus {
	attempts := g.runtime.attempts(container.Name)
	if len(attempts) == 0 {
		status := g.missingContainerStatus(container, old, restarting)
		if kind == initial {
			g.inferCompleted(container, status)
		}
		return status
	}
	status := g.convertContainerStatus(attempts[0], old, restarting)
	status.VolumeMounts = volumeMounts(container, attempts[0], old)
	status.Resources = containerResources(container, status, attempts[0], old)
	status.AllocatedResources = container.Resources.Requests.DeepCopy()
	status.User = containerUser(attempts[0])
	if len(attempts) > 1 {
		status.LastTerminationState = g.convertContainerStatus(attempts[1], old, restarting).State
	}
	return status
}

// missingContainerStatus returns the status of a container that the runtime does not have: it was never created, or it was
// removed after it ended.
func (g *generator) missingContainerStatus(container *v1.Container, old *v1.ContainerStatus, restarting bool) *v1.ContainerStatus {
	status := &v1.ContainerStatus{
		Name:         container.Name,
		Image:        container.Image,
		State:        v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: containerCreating}},
		VolumeMounts: volumeMounts(container, nil, old),
	}
	if len(g.pod.Spec.InitContainers) > 0 {
		status.State.Waiting.Reason = podInitializing
	}
	if old == nil {
		return status
	}
	if old.State.Terminated != nil {
		status = old.DeepCopy()
	} else {
		status.RestartCount = old.RestartCount
		status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}

	switch {
	case restarting && old.State.Waiting == nil:
		const message = "The container is removed because RestartAllContainers in place"
		status.State = v1.ContainerState{
			Waiting: &v1.ContainerStateWaiting{Reason: restartingAllContainers, Message: message},
		}
		status.LastTerminationState.Terminated = &v1.ContainerStateTerminated{
			Reason: restartingAllContainers, Message: message, ExitCode: exitCodeOfUnknown,
		}
		status.RestartCount = old.RestartCount + 1
	case old.State.Running != nil && status.LastTerminationState.Terminated == nil:
		// The container ran, and its end is not known.
		status.LastTerminationState.Terminated = &v1.ContainerStateTerminated{
			Reason:   containerStatusUnknown,
			Message:  "The container could not be located when the pod was deleted.  The container used to be Running",
			ExitCode: exitCodeOfUnknown,
		}
		if g.pod.DeletionTimestamp == nil {
			status.RestartCount++
		}
	}
	return status
}

// inferCompleted sets the state of an init container that the runtime no longer has: if a container of the pod was created, the
// init container has completed. It does not concern sidecars, which are restarted.
func (g *generator) inferCompleted(container *v1.Container, status *v1.ContainerStatus) {
	if status.State.Waiting == nil || isRestartableInitContainer(container) || !g.runtime.hasAnyRegularContainerCreated(&g.pod.Spec) {
		return
	}
	status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason:  "Completed",
		Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
	}}
}

// convertContainerStatus returns the status of one attempt of a container.
func (g *generator) convertContainerStatus(cri *runtimeapi.ContainerStatus, old *v1.ContainerStatus, restarting bool) *v1.ContainerStatus {
	status := &v1.ContainerStatus{
		Name:         containerName(cri),
		RestartCount: restartCount(cri),
		Image:        cri.GetImage().GetImage(),
		ImageID:      cri.GetImageRef(),
		ContainerID:  g.node.Runtime + "://" + cri.GetId(),
	}
	if old != nil {
		status.RestartCount = max(status.RestartCount, old.RestartCount)
		// The runtime may have removed the attempt before.
		if old.ContainerID != status.ContainerID && old.State.Terminated != nil {
			status.LastTerminationState.Terminated = old.State.Terminated.DeepCopy()
		} else {
			status.LastTerminationState.Terminated = old.LastTerminationState.Terminated.DeepCopy()
		}
	}
	switch cri.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		status.State.Running = &v1.ContainerStateRunning{StartedAt: unixTime(cri.GetStartedAt())}
		if old != nil && old.State.Terminated != nil && old.RestartCount >= restartCount(cri) {
			status.RestartCount = old.RestartCount + 1
		}
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		status.State.Terminated = &v1.ContainerStateTerminated{
			ExitCode:    cri.GetExitCode(),
			Reason:      cri.GetReason(),
			Message:     cri.GetMessage(),
			StartedAt:   unixTime(cri.GetStartedAt()),
			FinishedAt:  unixTime(cri.GetFinishedAt()),
			ContainerID: status.ContainerID,
		}
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
		if old != nil && old.State.Running != nil {
			status.State.Terminated = unlocatedContainer()
			if restarting {
				status.State.Terminated.Reason = restartingAllContainers
			}
			status.RestartCount = old.RestartCount + 1
			break
		}
		status.State.Waiting = &v1.ContainerStateWaiting{}
	default:
		status.State.Waiting = &v1.ContainerStateWaiting{}
	}
	return status
}

// unlocatedContainer returns the state of a container whose end the runtime does not know.
func unlocatedContainer() *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		Reason:   containerStatusUnknown,
		Message:  "The container could not be located when the pod was terminated",
		ExitCode: exitCodeOfUnknown,
	}
}

func containerUser(cri *runtimeapi.ContainerStatus) *v1.ContainerUser {
	if cri.GetUser() == nil {
		return nil
	}
	user := &v1.ContainerUser{}
	if linux := cri.GetUser().GetLinux(); linux != nil {
		user.Linux = &v1.LinuxContainerUser{
			UID:                linux.GetUid(),
			GID:                linux.GetGid(),
			SupplementalGroups: slices.Clone(linux.GetSupplementalGroups()),
		}
	}
	return user
}

func findStatus(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	if i := slices.IndexFunc(statuses, func(status v1.ContainerStatus) bool { return status.Name == name }); i >= 0 {
		return &statuses[i]
	}
	return nil
}

// volumeMounts returns the status of the volume mounts of a container. The runtime reports one field of it: whether a mount is
// recursively read-only. That is not known before the runtime has the container. All other fields are from the pod.
//
// kubelet: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses.
func volumeMounts(container *v1.Container, cri *runtimeapi.ContainerStatus, old *v1.ContainerStatus) []v1.VolumeMountStatus {
	var mounts []v1.VolumeMountStatus
	for _, mount := range container.VolumeMounts {
		status := v1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if mount.ReadOnly {
			status.RecursiveReadOnly = recursiveReadOnly(&mount, cri, old)
		}
		mounts = append(mounts, status)
	}
	return mounts
}

func recursiveReadOnly(mount *v1.VolumeMount, cri *runtimeapi.ContainerStatus, old *v1.ContainerStatus) *v1.RecursiveReadOnlyMode {
	if mount.RecursiveReadOnly == nil || *mount.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return new(v1.RecursiveReadOnlyDisabled)
	}
	path := mount.MountPath
	if !filepath.IsAbs(path) {
		path = "/" + path
	}
	for _, found := range cri.GetMounts() {
		if found.GetContainerPath() != path {
			continue
		}
		if found.GetRecursiveReadOnly() {
			return new(v1.RecursiveReadOnlyEnabled)
		}
		return new(v1.RecursiveReadOnlyDisabled)
	}
	if old != nil {
		for _, status := range old.VolumeMounts {
			if status.MountPath == mount.MountPath && status.RecursiveReadOnly != nil {
				return new(*status.RecursiveReadOnly)
			}
		}
	}
	return nil
}
