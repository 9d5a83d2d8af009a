package lookup

import (
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

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
