package get

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// resourcesField is the field beside metadata that has what the kubelet assigned to the containers of a pod.
const resourcesField = "resources"

// devicePrinter adds to each pod what the kubelet assigned to its containers.
type devicePrinter struct {
	delegate printers.ResourcePrinter
	// find returns that of a pod.
	find func(types.UID) ([]v1alpha1.ContainerResources, error)
}

// PrintObj prints a pod, a list of pods, or an event of a watch.
func (p devicePrinter) PrintObj(obj runtime.Object, out io.Writer) error {
	var err error
	switch o := obj.(type) {
	case *metav1.WatchEvent:
		event := *o
		if pod, ok := o.Object.Object.(*unstructured.Unstructured); ok {
			event.Object.Object, err = p.with(pod)
		}
		obj = &event
	case *unstructured.Unstructured:
		obj, err = p.with(o)
	case *unstructured.UnstructuredList:
		list := &unstructured.UnstructuredList{Object: o.Object, Items: make([]unstructured.Unstructured, len(o.Items))}
		for i := range o.Items {
			pod, failed := p.with(&o.Items[i])
			if failed != nil {
				return failed
			}
			list.Items[i] = *pod
		}
		obj = list
	}
	if err != nil {
		return err
	}
	return p.delegate.PrintObj(obj, out)
}

// with returns a copy of the pod that has the field.
func (p devicePrinter) with(pod *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resources, err := p.find(pod.GetUID())
	if err != nil || len(resources) == 0 {
		return pod, err
	}
	data, err := json.Marshal(resources)
	if err != nil {
		return nil, err
	}
	var field []any
	if err := utiljson.Unmarshal(data, &field); err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{Object: maps.Clone(pod.Object)}
	changed.Object[resourcesField] = field
	return changed, nil
}

// resourcesOf returns what the kubelet assigned to the containers of a pod, as the daemon knows it; nothing for a pod that is gone.
func resourcesOf(ctx context.Context, c *client.Client, uid types.UID) ([]v1alpha1.ContainerResources, error) {
	found, err := c.Lookup(ctx, client.LookupQuery{PodUID: string(uid)})
	if _, refused := errors.AsType[*client.RefusedError](err); refused || err == nil && len(found.Pods) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.Pods[0].Resources, nil
}

// noteDevices says that the daemon does not know the devices: nothing is shown then for a pod that has some.
func noteDevices(ctx context.Context, c *client.Client, notes io.Writer) {
	status, err := c.Status(ctx)
	if err != nil {
		return // the client may not read it
	}
	if d := status.Devices; d == nil || d.LastList == nil {
		fmt.Fprintln(notes, "podconfigctl: podconfigd does not know the devices of pods: the kubelet has not listed them")
	}
}

// devicesOf returns the devices of a pod of a devicePrinter, as a cell of a table.
func devicesOf(pod *unstructured.Unstructured) (string, error) {
	data, err := json.Marshal(pod.Object[resourcesField])
	if err != nil {
		return "", err
	}
	var resources []v1alpha1.ContainerResources
	if err := json.Unmarshal(data, &resources); err != nil {
		return "", fmt.Errorf("reading the devices of pod %s: %w", pod.GetName(), err)
	}
	var names []string
	for i := range resources {
		for resource, device := range resources[i].Named() {
			names = append(names, resource+":"+device)
		}
	}
	if len(names) == 0 {
		return "<none>", nil
	}
	return cli.Cell(strings.Join(names, ",")), nil
}
