package story

import (
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// maxChanges is the maximum number of changes in a story.
const maxChanges = 5

// Tell returns the story of a subject.
func Tell(subject Subject, f *Facts) *v1alpha1.Story {
	s := &v1alpha1.Story{
		Namespace: subject.Namespace, Name: subject.Name, NodeName: f.Status.NodeName, Unanswered: f.Unanswered,
	}
	s.Changes = f.Changes[max(0, len(f.Changes)-maxChanges):]
	if subject.Name != "" {
		uid := ""
		if subject.Manifest != nil {
			uid = subject.Manifest.UID
		}
		addPods(s, f, uid)
	}
	source := subject.Source
	if s.Manifest = subject.Manifest; s.Manifest == nil {
		source, s.Manifest = manifestOf(s, f)
	}
	if s.Manifest != nil {
		s.Path, s.Line = s.Manifest.Path, mend.Line(s.Manifest.Message)
		if s.Line == 0 && len(s.Manifest.Warnings) > 0 {
			s.Line = mend.Line(s.Manifest.Warnings[0])
		}
	} else if s.Pod != nil {
		source = s.Pod.Source
	}
	s.Source = sourceOf(source, f)
	for name, m := range manifests(f) {
		if m != s.Manifest && s.Name != "" && m.Namespace == s.Namespace && m.Name == s.Name {
			s.OtherManifests = append(s.OtherManifests, v1alpha1.StoryManifest{Source: name, Manifest: *m})
		}
	}
	s.MirrorProblem = mirrorProblemOf(s, f.Status.MirrorPods)
	judge(s, f)
	return s
}

// mirrorProblemOf returns why a static pod has no mirror pod; empty if it has one or the reason is not known. m is nil if the
// daemon creates no mirror pods.
func mirrorProblemOf(s *v1alpha1.Story, m *v1alpha1.MirrorStatus) string {
	if m == nil || s.Pod == nil || s.Pod.Mirror || s.Pod.Source == config.ApiserverSource {
		return ""
	}
	for i := range m.Problems {
		if p := &m.Problems[i]; p.Namespace == s.Namespace && p.Name == s.Name {
			return p.Message
		}
	}
	switch {
	case slices.ContainsFunc(s.OtherPods, func(p v1alpha1.StoryPod) bool { return p.Mirror }):
		return ""
	case m.Stopped != nil:
		return "mirror pods are stopped: " + m.Stopped.Reason
	}
	return m.Waiting
}

// addPods adds the pods with the name. The main pod is the one with the UID of the manifest, otherwise the first one that is
// not a mirror pod.
func addPods(s *v1alpha1.Story, f *Facts, uid string) {
	rank := func(p *v1alpha1.StoryPod) int {
		switch {
		case p.UID == uid && uid != "":
			return 0
		case !p.Mirror:
			return 1
		}
		return 2
	}
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Namespace != s.Namespace || pod.Name != s.Name {
			continue
		}
		p := podOf(pod, f)
		if s.Pod != nil && rank(p) < rank(s.Pod) {
			s.Pod, p = p, s.Pod
		}
		if s.Pod == nil {
			s.Pod = p
		} else {
			s.OtherPods = append(s.OtherPods, *p)
		}
	}
}

// manifestOf returns the manifest of the story's pod, and its source. If no source has the pod, it returns the first manifest
// with the name.
func manifestOf(s *v1alpha1.Story, f *Facts) (source string, found *v1alpha1.Manifest) {
	for name, m := range manifests(f) {
		if m.Namespace != s.Namespace || m.Name != s.Name {
			continue
		}
		if s.Pod != nil && m.UID == s.Pod.UID && m.State != v1alpha1.ManifestShadowed {
			return name, m
		}
		if found == nil && s.Pod == nil {
			source, found = name, m
		}
	}
	return source, found
}

// sourceOf returns the status of a source without its manifests; nil if there is no such source.
func sourceOf(name string, f *Facts) *v1alpha1.SourceStatus {
	for i := range f.Status.Sources {
		if f.Status.Sources[i].Name != name {
			continue
		}
		source := f.Status.Sources[i]
		if source.File != nil {
			file := *source.File
			file.Manifests, file.ManifestsOmitted = []v1alpha1.Manifest{}, nil
			source.File = &file
		}
		if source.HTTP != nil {
			http := *source.HTTP
			http.Manifests, http.ManifestsOmitted = []v1alpha1.Manifest{}, nil
			source.HTTP = &http
		}
		return &source
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
