package story

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
)

// finding is the health that a fact shows, with the reason and what to do.
type finding struct {
	health  v1alpha1.Health
	summary string
	fix     []string
}

// judge sets the health from the first finding that applies.
func judge(s *v1alpha1.Story, f *Facts) {
	for _, look := range []func(*v1alpha1.Story, *Facts) *finding{
		manifestFinding, absentFinding, sourceFinding, deletionFinding, inspectionFinding, phaseFinding, containerFinding, runtimeFinding,
	} {
		if found := look(s, f); found != nil {
			s.Health, s.Summary, s.Fix = found.health, found.summary, found.fix
			return
		}
	}
}

// manifestFinding says what is wrong with the manifest.
func manifestFinding(s *v1alpha1.Story, _ *Facts) *finding {
	m := s.Manifest
	if m == nil || m.State == v1alpha1.ManifestAccepted {
		return nil
	}
	what := "the manifest"
	if m.Path != "" {
		what += " " + m.Path
	}
	found := &finding{health: v1alpha1.Unhealthy, fix: mend.Manifest(m)}
	switch m.State {
	case v1alpha1.ManifestIgnored:
		found.health, found.summary = v1alpha1.Healthy, fmt.Sprintf("%s is ignored: %s", strings.TrimPrefix(what, "the manifest "), m.Message)
	case v1alpha1.ManifestHeld:
		found.summary = fmt.Sprintf("%s can't be used, and the pod is that of its last good version: %s", what, m.Message)
	case v1alpha1.ManifestShadowed:
		found.summary = fmt.Sprintf("%s gives no pod: %s", what, m.Message)
	default:
		found.summary = fmt.Sprintf("%s is rejected: %s", what, m.Message)
	}
	return found
}

// absentFinding applies if no source has the pod.
func absentFinding(s *v1alpha1.Story, _ *Facts) *finding {
	if s.Pod != nil {
		return nil
	}
	found := &finding{health: v1alpha1.Unhealthy, summary: "no source has the pod"}
	for _, change := range slices.Backward(s.Changes) {
		if change.Op != v1alpha1.OpRemove || change.Time == nil {
			continue
		}
		found.summary += fmt.Sprintf(": the source %s removed it at %s", change.Source, change.Time.Local().Format(time.DateTime))
		if change.File != nil {
			found.fix = []string{"to have it back, put its manifest " + change.File.Path + " back; podconfigctl history --diff --pod " + s.Namespace + "/" + s.Name + " shows it"}
		}
		break
	}
	return found
}

// sourceFinding applies if the pod may be outdated, because its source can't be read.
func sourceFinding(s *v1alpha1.Story, _ *Facts) *finding {
	source := s.Source
	switch {
	case source == nil:
		return nil
	case source.Degraded || source.Held != nil:
		return &finding{
			v1alpha1.Unhealthy, fmt.Sprintf("the source %s is degraded, and the pod is that of its last set: %s", source.Name, source.LastError), mend.Source(source),
		}
	case source.Restored && !source.Seen:
		return &finding{
			v1alpha1.Progressing, fmt.Sprintf("the pod is from before the restart: the source %s has not delivered its pods since", source.Name), nil,
		}
	}
	return nil
}

// deletionFinding applies if the pod is being deleted.
func deletionFinding(s *v1alpha1.Story, _ *Facts) *finding {
	if s.Pod.Deleting == nil {
		return nil
	}
	return &finding{v1alpha1.Progressing, "the pod is being deleted, until " + s.Pod.Deleting.Local().Format(time.DateTime), nil}
}

// inspectionFinding applies if the runtime does not describe the pod, so that its status is of before.
func inspectionFinding(s *v1alpha1.Story, f *Facts) *finding {
	running := runtimePod(f, s.Pod.UID)
	if running == nil || running.UninspectedSince == nil {
		return nil
	}
	return &finding{
		v1alpha1.Unknown, fmt.Sprintf("the state of the pod is not known since %s: the container runtime lists it, and does not describe it. Its status is of before",
			running.UninspectedSince.Local().Format(time.DateTime)), []string{"check the container runtime at " + f.Status.Runtime.Endpoint},
	}
}

// phaseFinding applies if the pod ended.
func phaseFinding(s *v1alpha1.Story, _ *Facts) *finding {
	switch v1.PodPhase(s.Pod.Phase) {
	case v1.PodSucceeded:
		return &finding{v1alpha1.Healthy, "the pod completed", nil}
	case v1.PodFailed:
		return &finding{v1alpha1.Unhealthy, "the pod failed" + because(s.Pod.Reason, s.Pod.Message) + containerReasons(s.Pod), fixFailed(s.Pod)}
	}
	return nil
}

// starting has the reasons of waiting containers that are no fault.
var starting = []string{"", "ContainerCreating", "PodInitializing"}

// containerFinding applies if the state of a container shows a fault.
func containerFinding(s *v1alpha1.Story, _ *Facts) *finding {
	for i := range s.Pod.Containers {
		c := &s.Pod.Containers[i]
		switch {
		case c.State == "waiting" && !slices.Contains(starting, c.Reason):
			return &finding{v1alpha1.Unhealthy, fmt.Sprintf("the container %s waits%s%s", c.Name, because(c.Reason, c.Message), before(c)), fixWaiting(s.Pod, c)}
		case c.State == "terminated" && c.ExitCode != nil && *c.ExitCode != 0:
			return &finding{v1alpha1.Unhealthy, fmt.Sprintf("the container %s ended with the exit code %d%s", c.Name, *c.ExitCode, because(c.Reason, c.Message)), logsOf(s.Pod, c)}
		}
	}
	return nil
}

// before says how the attempt before the present one ended.
func before(c *v1alpha1.StoryContainer) string {
	if c.LastExitCode == nil {
		return ""
	}
	return fmt.Sprintf("; its last attempt ended with the exit code %d%s", *c.LastExitCode, because(c.LastReason, ""))
}

// runtimeFinding says whether the pod runs. It always applies.
func runtimeFinding(s *v1alpha1.Story, f *Facts) *finding {
	p := s.Pod
	known := slices.ContainsFunc(p.Containers, func(c v1alpha1.StoryContainer) bool { return c.State != "" })
	notReady := func(c v1alpha1.StoryContainer) bool { return !c.Init && !c.Ready }
	switch {
	case p.Phase == string(v1.PodRunning) && !slices.ContainsFunc(p.Containers, notReady):
		return &finding{v1alpha1.Healthy, "all containers run and are ready", nil}
	case p.Phase == string(v1.PodRunning):
		return &finding{v1alpha1.Progressing, "the pod runs, and is not ready" + conditionMessage(s, f), nil}
	case f.Status.Runtime != nil && !f.Status.Runtime.Healthy:
		return &finding{v1alpha1.Unknown, "the container runtime does not answer: " + f.Status.Runtime.LastError, []string{"check the container runtime at " + f.Status.Runtime.Endpoint}}
	case p.Sandbox == nil && f.Runtime != nil:
		return &finding{v1alpha1.Progressing, "nothing has started the pod: the container runtime has no sandbox of it", []string{noStarter(f.Status)}}
	case p.Sandbox != nil || known:
		return &finding{v1alpha1.Progressing, "the pod is starting: " + p.Status, nil}
	case f.Status.Runtime != nil:
		return &finding{v1alpha1.Unknown, "whether the pod runs is not known", nil}
	case p.Source == "api":
		return &finding{v1alpha1.Unknown, "whether the pod runs is not known: the apiserver has no status of its containers", []string{"check that a kubelet runs on the node, or set --container-runtime-endpoint of podconfigd"}}
	}
	return &finding{
		v1alpha1.Unknown, "podconfigd serves the pod. Whether it runs is not known, because podconfigd has no container runtime",
		[]string{"to see the state of containers, set --container-runtime-endpoint of podconfigd"},
	}
}

// noStarter says what to check if no agent starts pods.
func noStarter(status *v1alpha1.Status) string {
	if len(status.Subscribers) == 0 {
		return "check that the agent that runs pods is running: podconfigd does not start pods, and has no subscribers"
	}
	return fmt.Sprintf("check the log of the agent that runs pods: podconfigd does not start pods, and has subscribers (%d)", len(status.Subscribers))
}

// conditionMessage returns the message of the condition ContainersReady.
func conditionMessage(s *v1alpha1.Story, f *Facts) string {
	for i := range f.Pods {
		if string(f.Pods[i].UID) != s.Pod.UID {
			continue
		}
		for _, c := range f.Pods[i].Status.Conditions {
			if c.Type == v1.ContainersReady && c.Message != "" {
				return ": " + c.Message
			}
		}
	}
	return ""
}

func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case reason == "" || message == "":
		return ": " + reason + message
	}
	return ": " + reason + ": " + message
}

// containerReasons lists the containers that failed.
func containerReasons(p *v1alpha1.StoryPod) string {
	var failed []string
	for _, c := range p.Containers {
		if c.ExitCode != nil && *c.ExitCode != 0 {
			failed = append(failed, fmt.Sprintf("container %s ended with the exit code %d%s", c.Name, *c.ExitCode, because(c.Reason, c.Message)))
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return ": " + strings.Join(failed, "; ")
}
