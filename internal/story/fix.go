package story

import (
	"fmt"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/shellword"
)

// FixManifest says what to do about a manifest that is not accepted.
func FixManifest(m *v1alpha1.Manifest) []string {
	path := m.Path
	if path == "" {
		return []string{"correct it in the list at the manifest URL"}
	}
	place := path
	if line := lineOf(m.Message); line > 0 {
		place = fmt.Sprintf("%s:%d", path, line)
	}
	check := "to check it before it is read, run podconfigd validate " + shellword.Quote(path)
	switch m.Reason {
	case "Empty":
		return []string{"write a v1 Pod to " + path + ", or remove the file"}
	case "TooLarge":
		return []string{"make " + path + " smaller: the limits are 10 MiB and 100,000 values"}
	case "NotAPod":
		return []string{"put one v1 Pod into " + path + ", and other objects into the apiserver", check}
	case "Forbidden":
		return []string{"remove the reference at " + place + ": a static pod can't refer to API objects", check}
	case "Duplicate":
		return []string{"rename the pod in " + path + ", or remove one of the manifests"}
	case "IsDirectory", "NotRegular":
		return []string{"replace " + path + " by a regular file, or remove it"}
	case "DanglingLink", "CyclicLink":
		return []string{"correct the symbolic link " + path + ", or remove it"}
	case "Unreadable":
		return []string{"let the user of podconfigd read " + path}
	}
	return []string{"correct " + place, check}
}

// fixSource says what to do about a degraded source.
func fixSource(s *v1alpha1.SourceStatus) []string {
	switch {
	case s.File != nil:
		return []string{"make " + s.File.Path + " readable again; an empty directory removes the pods"}
	case s.HTTP != nil:
		return []string{"check what the server answers at " + s.HTTP.URL}
	case s.API != nil:
		return []string{"check the apiserver " + s.API.Server + ", and the credentials in --kubeconfig of podconfigd"}
	}
	return nil
}

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
