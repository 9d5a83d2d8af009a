package lookup

import (
	"errors"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// checkDevices returns why no device is known, or nil.
func (l *Lookup) checkDevices(what string) error {
	switch {
	case l.devices == nil:
		return apistatus.New(http.StatusNotImplemented, "looking up "+what+": the devices of containers are off: see --pod-resources-socket")
	case !l.devices().Known():
		return unavailable(what, errors.New("the kubelet has not said yet which container has which device"))
	}
	return nil
}

// resources returns what the kubelet assigned to the containers of a pod, if its form has the resources of the spec.
func (l *Lookup) resources(form access.Form, pod *v1.Pod) []v1alpha1.ContainerResources {
	if l.devices == nil || form.Level() < access.Redacted {
		return nil
	}
	return l.devices().Of(devices.PodOf(pod))
}

// findDevice finds the containers with a device, which can be shared.
func (l *Lookup) findDevice(q *Query, device string, f *finding) {
	for pod, resources := range l.devices().All() {
		for i := range resources {
			if devices.Has(&resources[i], device) {
				l.findHolder(q, pod, resources[i].Container, f)
			}
		}
	}
}

// findHolder adds a container with devices, unless they are hidden.
func (l *Lookup) findHolder(q *Query, holder devices.Pod, name string, f *finding) {
	n := len(f.answer.Pods)
	of := finding{answer: f.answer, scope: f.scope}
	l.findUID(q, holder.UID, holder.String(), &of)
	if len(f.answer.Pods) == n {
		return
	}
	pod := &f.answer.Pods[n]
	if pod.Resources == nil || pod.Namespace != holder.Namespace || pod.Name != holder.Name {
		f.answer.Pods = f.answer.Pods[:n]
		return
	}
	pod.Container = &v1alpha1.LookupContainer{Name: name}
	if c := l.newest(holder.UID, name); c != nil {
		if recorded, ok := l.runtime.FindContainer(c.ID); ok {
			pod.Container = container(&recorded)
		}
	}
}

// newest returns the newest container of a pod with a name; nil if the runtime has none.
func (l *Lookup) newest(uid types.UID, name string) (newest *pleg.Container) {
	if l.runtime == nil {
		return nil
	}
	pod, _ := l.runtime.Pod(uid)
	if pod == nil {
		return nil
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; !c.Sandbox && c.Name == name && (newest == nil || c.Attempt >= newest.Attempt) {
			newest = c
		}
	}
	return newest
}

// Devices returns the containers with devices that the client sees, each with its pod. The scope and the error are those of Find.
func (l *Lookup) Devices(scope *view.Scope) (*v1alpha1.Lookup, error) {
	if err := l.checkDevices("all devices"); err != nil {
		return nil, err
	}
	f := &finding{answer: new(v1alpha1.Lookup), scope: scope}
	for pod, resources := range l.devices().All() {
		for i := range resources {
			for range resources[i].Named() {
				l.findHolder(new(Query), pod, resources[i].Container, f)
				break
			}
		}
	}
	return f.answer, nil
}
