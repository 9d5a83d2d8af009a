package story

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/pkg/client"
)

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
