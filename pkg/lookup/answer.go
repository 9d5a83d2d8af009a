package lookup

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// byMirrorPod is LookupPod.StatusBy for a status that a kubelet wrote to the mirror pod.
const byMirrorPod = "mirrorPod"

// add adds the first version that the client sees, unless the answer has the pod. The client must see the last one, which is
// what it asks for.
func (l *Lookup) add(q *Query, versions []version, f *finding) {
	if n := len(versions); n == 0 || f.scope.See(versions[n-1].Pod) == nil {
		return
	}
	for _, v := range versions {
		p := f.scope.See(v.Pod)
		if p == nil {
			continue
		}
		if f.added[p.Object.UID] {
			return
		}
		if f.added != nil {
			f.added[p.Object.UID] = true
		}
		status, by := &p.Object.Status, ""
		if mirror := l.pods.mirror(v); mirror != nil {
			if mirror = f.scope.See(mirror); mirror != nil {
				status, by = &mirror.Object.Status, byMirrorPod
			}
		}
		found := sourcePod(q, p, status, v.ended)
		if q.PodUID != "" {
			found.StatusBy = by
		}
		if l.owners != nil {
			found.Owners = l.owners(p)
		}
		if v.ended == nil {
			found.Resources = l.resources(f.scope.Grant().Of(v.Source, v.Object), v.Object)
		}
		f.answer.Pods = append(f.answer.Pods, found)
		return
	}
}

// orphan adds a pod that only the runtime has. If the runtime has had it for longer than the wait, no source is about to
// deliver it.
func (l *Lookup) orphan(q *Query, recorded pleg.Found, f *finding) {
	p := v1alpha1.LookupPod{Namespace: recorded.Namespace, Name: recorded.Name, UID: string(recorded.UID)}
	if !recorded.Ended.IsZero() {
		p.Ended = &recorded.Ended
		f.keys = nil
	} else {
		p.Resources = l.resources(f.scope.Grant().AtLeast("", p.Namespace), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: recorded.UID}})
	}
	if end := recorded.Since.Add(q.Wait); end.Before(f.until) {
		f.until = end
	}
	f.answer.Pods = append(f.answer.Pods, p)
}

// sourcePod returns a pod of a source as an answer shows it, with its status.
func sourcePod(q *Query, p *journal.Pod, status *v1.PodStatus, ended *time.Time) v1alpha1.LookupPod {
	o := p.Object
	found := v1alpha1.LookupPod{
		Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Labels: o.Labels,
		Source: p.Source, Revision: p.Revision, Phase: string(status.Phase), HostNetwork: o.Spec.HostNetwork,
		Ended: ended,
	}
	for _, ip := range addresses(status) {
		found.PodIPs = append(found.PodIPs, ip.String())
	}
	if q.Pods && ended == nil { // otherwise addWhole adds it
		found.Pod = whole(o)
	}
	return found
}

// whole returns the pod with apiVersion and kind.
func whole(pod *v1.Pod) *v1.Pod {
	typed := *pod
	typed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return &typed
}

func container(recorded *pleg.Found) *v1alpha1.LookupContainer {
	c := &recorded.Container
	found := &v1alpha1.LookupContainer{
		ID: c.ID, Name: c.Name, Sandbox: c.Sandbox, State: c.State.String(), ExitCode: c.ExitCode, Restarts: int(c.Attempt),
		SandboxID: c.SandboxID,
	}
	if !recorded.Started.IsZero() {
		found.Started = &recorded.Started
	}
	if !recorded.Ended.IsZero() {
		found.Ended = &recorded.Ended
	}
	return found
}

// PodOf returns the pod of a container of the runtime; nil if no source has it. It is the one that an answer without access rules has.
// If it ended, it has only the fields of such an answer.
func (l *Lookup) PodOf(recorded *pleg.Found) (pod *journal.Pod, ended bool) {
	l.pods.mu.Lock()
	defer l.pods.mu.Unlock()
	l.pods.syncLocked()
	versions := l.pods.ofUID(recorded.UID, recorded.Namespace+"/"+recorded.Name)
	if len(versions) == 0 {
		return nil, false
	}
	v := versions[0]
	if v.ended != nil && l.owners != nil {
		v.Owners = l.owners(v.Pod) // the version is new
	}
	return v.Pod, v.ended != nil
}

// ResourcesOf returns what the kubelet assigned to a container of a pod; nil for nothing.
func (l *Lookup) ResourcesOf(pod *journal.Pod, container string) *v1alpha1.ContainerResources {
	if l.devices == nil {
		return nil
	}
	all := l.devices().Of(devices.PodOf(pod.Object))
	for i := range all {
		if all[i].Container == container {
			return &all[i]
		}
	}
	return nil
}

// Container returns a container of the runtime as answers show it, without its handles.
func Container(recorded *pleg.Found) *v1alpha1.LookupContainer { return container(recorded) }
