// Package story answers why a pod does not run. It collects what a daemon knows about one pod or one manifest, judges its
// health, and says what to do:
//
//	s, err := story.Ask(ctx, client, "kube-system/web")
//	fmt.Println(s.Health, s.Summary, s.Fix)
//
// [Ask] requests the facts from the daemon. A program that already has them calls [Find] and [Tell].
package story

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// podOf returns a pod as a story shows it.
func podOf(pod *v1.Pod, f *Facts) *v1alpha1.StoryPod {
	p := &v1alpha1.StoryPod{
		Source: pod.Annotations[config.ConfigSourceAnnotationKey], UID: string(pod.UID),
		Deleting: timeOf(pod.DeletionTimestamp),
		Phase:    string(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message,
	}
	_, p.Mirror = pod.Annotations[v1.MirrorPodAnnotationKey]
	cells := podfields.Cells(pod, time.Now())
	p.Ready, p.Status, p.Restarts = fmt.Sprint(cells[1]), fmt.Sprint(cells[2]), fmt.Sprint(cells[3])
	if seen, err := time.Parse(time.RFC3339Nano, pod.Annotations[config.ConfigFirstSeenAnnotationKey]); err == nil {
		p.Seen = &seen
	}
	for _, ip := range pod.Status.PodIPs {
		p.PodIPs = append(p.PodIPs, ip.IP)
	}
	for source, m := range manifests(f) {
		if m.UID == p.UID && m.State != v1alpha1.ManifestShadowed && m.Namespace == pod.Namespace && m.Name == pod.Name {
			p.Source = source // the name; the annotation has only the kind of the source
		}
	}
	if version := f.Versions[p.UID]; version != nil && version.Source != "" {
		p.Source, p.Revision, p.StatusBy = version.Source, version.Revision, version.StatusBy
	}
	if running := runtimePod(f, p.UID); running != nil {
		p.Sandbox = running.CreatedAt
	}
	p.Containers = append(containersOf(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, true),
		containersOf(pod.Spec.Containers, pod.Status.ContainerStatuses, false)...)
	if running := runtimePod(f, p.UID); running != nil {
		complete(p.Containers, running)
	}
	return p
}

// runtimePod returns the pod of the container runtime, or nil.
func runtimePod(f *Facts, uid string) *v1alpha1.RuntimePod {
	if f.Runtime == nil {
		return nil
	}
	for i := range f.Runtime.Pods {
		if f.Runtime.Pods[i].UID == uid {
			return &f.Runtime.Pods[i]
		}
	}
	return nil
}

func containersOf(specs []v1.Container, statuses []v1.ContainerStatus, inits bool) []v1alpha1.StoryContainer {
	containers := make([]v1alpha1.StoryContainer, len(specs))
	for i := range specs {
		c := &containers[i]
		*c = v1alpha1.StoryContainer{Name: specs[i].Name, Image: specs[i].Image, Init: inits}
		for j := range statuses {
			if statuses[j].Name == c.Name {
				fill(c, &statuses[j])
			}
		}
	}
	return containers
}

// fill adds the status of a container.
func fill(c *v1alpha1.StoryContainer, s *v1.ContainerStatus) {
	c.ID, c.Ready, c.Restarts = s.ContainerID, s.Ready, int(s.RestartCount)
	switch {
	case s.State.Running != nil:
		c.State, c.Since = "running", timeOf(&s.State.Running.StartedAt)
	case s.State.Terminated != nil:
		t := s.State.Terminated
		c.State, c.Reason, c.Message, c.ExitCode, c.Since = "terminated", t.Reason, t.Message, new(t.ExitCode), timeOf(&t.FinishedAt)
	case s.State.Waiting != nil:
		c.State, c.Reason, c.Message = "waiting", s.State.Waiting.Reason, s.State.Waiting.Message
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		c.LastExitCode, c.LastReason = new(last.ExitCode), last.Reason
	}
}

// complete adds the states of containers that the status does not have, from the runtime.
func complete(containers []v1alpha1.StoryContainer, running *v1alpha1.RuntimePod) {
	states := map[string]string{"created": "waiting", "running": "running", "exited": "terminated"}
	for i := range containers {
		c := &containers[i]
		for j := range running.Containers {
			if r := &running.Containers[j]; r.Name == c.Name && c.State == "" {
				c.ID, c.State, c.ExitCode, c.Restarts = r.ID, states[r.State], r.ExitCode, r.Restarts
			}
		}
	}
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return &t.Time
}

// Facts are the answers of a daemon.
type Facts struct {
	Status *v1alpha1.Status
	// Pods has all pods, also mirror pods.
	Pods []v1.Pod
	// Runtime has the pods of the container runtime; nil without a runtime.
	Runtime *v1alpha1.RuntimePods
	// Versions has the answers to lookups of pods, by UID. Pods can be missing.
	Versions map[string]*v1alpha1.LookupPod
	// Changes has the last changes of the pod, oldest first.
	Changes []v1alpha1.HistoryRecord
	// Unanswered lists the questions that the daemon did not answer, with the reasons.
	Unanswered []string
}

// Subject is what a story is about: a pod, a manifest, or both.
type Subject struct {
	// Namespace and Name identify the pod. They are empty for a manifest without a pod.
	Namespace, Name string
	// Manifest is the manifest that the user named, Source its source. Manifest is nil if the user named the pod.
	Manifest *v1alpha1.Manifest
	Source   string
}

// Ask requests the facts about a pod or a manifest from a daemon, and tells their story. [Find] explains the name. Only the
// status and the pods are necessary. If the user may not read another fact, or the daemon does not have it, the story says
// so.
func Ask(ctx context.Context, c *client.Client, name string) (*v1alpha1.Story, error) {
	f := &Facts{}
	var err error
	if f.Status, err = c.Status(ctx); err != nil {
		return nil, err
	}
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	f.Pods = pods.Items
	subject, missing := Find(name, f)
	if missing != nil {
		if subject, err = removed(ctx, c, name, f, missing); err != nil {
			return nil, err
		}
	}
	if err := f.askMore(ctx, c, &subject); err != nil {
		return nil, err
	}
	return Tell(subject, f), nil
}

// removed returns a pod that only the history has. If there is none, it returns the error missing.
func removed(ctx context.Context, c *client.Client, name string, f *Facts, missing error) (Subject, error) {
	if !errors.Is(missing, ErrNotFound) {
		return Subject{}, missing
	}
	pod, err := podname.Parse(name, "")
	if err != nil {
		return Subject{}, missing // it is a path
	}
	subject := Subject{Namespace: cmp.Or(pod.Namespace, "default"), Name: pod.Name}
	// The name in a manifest does not have the name of the node.
	inManifest := subject
	inManifest.Name = podname.Static(subject.Name, f.Status.NodeName)
	for _, s := range []Subject{subject, inManifest} {
		if err := f.askChanges(ctx, c, &s); err == nil && len(f.Changes) > 0 {
			return s, nil
		}
	}
	return Subject{}, missing
}

// askMore requests the pods of the runtime, the revisions of the pods, and the changes.
func (f *Facts) askMore(ctx context.Context, c *client.Client, s *Subject) error {
	if f.Status.Runtime != nil {
		runtime, err := c.Runtime(ctx)
		if err := f.answered("the container runtime", err); err != nil {
			return err
		}
		if err == nil {
			f.Runtime = runtime
		}
	}
	f.Versions = make(map[string]*v1alpha1.LookupPod)
	for i := range f.Pods {
		if f.Pods[i].Namespace != s.Namespace || f.Pods[i].Name != s.Name {
			continue
		}
		if err := f.askVersion(ctx, c, &f.Pods[i]); err != nil {
			return err
		}
	}
	c.CloseIdleConnections()
	if f.Changes != nil || len(validation.IsDNS1123Subdomain(s.Name)) > 0 {
		return nil // a pod without a valid name has no history
	}
	return f.answered("the history", f.askChanges(ctx, c, s))
}

func (f *Facts) askVersion(ctx context.Context, c *client.Client, pod *v1.Pod) error {
	found, err := c.Lookup(ctx, client.LookupQuery{PodUID: string(pod.UID)})
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code == http.StatusNotFound {
		return nil // it was removed in the meantime
	}
	if err != nil {
		return f.answered("the revision", err)
	}
	for i := range found.Pods {
		f.Versions[found.Pods[i].UID] = &found.Pods[i]
	}
	return nil
}

// askChanges requests the last changes of the pod.
func (f *Facts) askChanges(ctx context.Context, c *client.Client, s *Subject) error {
	var last []v1alpha1.HistoryRecord
	for record, err := range c.History(ctx, client.HistoryOptions{Pod: s.Namespace + "/" + s.Name}) {
		if err != nil {
			return err
		}
		if record.Gap == "" {
			last = append(last, *record)
		}
		if len(last) > 2*maxChanges {
			last = append(last[:0], last[len(last)-maxChanges:]...)
		}
	}
	f.Changes = last
	return nil
}

// answered notes that the daemon refused to answer. It returns any other error as it is.
func (f *Facts) answered(what string, err error) error {
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code != http.StatusUnauthorized {
		f.Unanswered = append(f.Unanswered, fmt.Sprintf("%s: %s", what, refused.Message))
		return nil
	}
	return err
}
