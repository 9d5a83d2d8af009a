package story

import (
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// fixFailed says what to do about a pod that failed.
func fixFailed(p *v1alpha1.StoryPod) []string {
	fix := logsOf(p, nil)
	switch p.Reason {
	case "Evicted":
		fix = append(fix, "make the pod use less of what the message names, or raise its limit; the pod does not start again by itself")
	case "DeadlineExceeded":
		fix = append(fix, "raise activeDeadlineSeconds of the pod, or make it end earlier")
	}
	return fix
}

// fixWaiting says what to do about a container that waits with an error. The reasons are those of the kubelet.
//
// kubelet: pkg/kubelet/images/types.go, pkg/kubelet/container/sync_result.go.
func fixWaiting(p *v1alpha1.StoryPod, c *v1alpha1.StoryContainer) []string {
	switch c.Reason {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed":
		return []string{"check that the node can pull the image " + c.Image + ": its name, the registry, and imagePullSecrets"}
	case "ErrImageNeverPull":
		return []string{"load the image " + c.Image + " onto the node, or change imagePullPolicy of the container"}
	case "InvalidImageName", "ImageInspectError":
		return []string{"correct the name of the image " + c.Image}
	case "CreateContainerConfigError":
		return []string{"create what the message names, or correct the reference to it in the pod"}
	case "CrashLoopBackOff":
		return append(logsOf(p, c), "correct why it ends; the kubelet starts it again after the back-off, or at once if the manifest changes")
	}
	return logsOf(p, c)
}

// logsOf says how to read the log of a container, or of the first that failed.
func logsOf(p *v1alpha1.StoryPod, c *v1alpha1.StoryContainer) []string {
	for i := range p.Containers {
		if failed := &p.Containers[i]; c == nil && failed.ExitCode != nil && *failed.ExitCode != 0 {
			c = failed
		}
	}
	if c == nil || c.ID == "" {
		return nil
	}
	id := c.ID
	if _, after, ok := strings.Cut(id, "://"); ok {
		id = after
	}
	return []string{"to read its log, run crictl logs " + id}
}
