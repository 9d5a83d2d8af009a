package podstatus

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// volumeMounts returns the status of the volume mounts of a container. The runtime knows no
// names of volumes, so that all but one field is that of the pod. The runtime reports whether a
// mount is recursively read-only. Before the runtime has the container, that is not known.
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
