package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// runtimePods are the container runtime's, by UID; nil where there is no runtime.
type runtimePods map[string]*v1alpha1.RuntimePod

// askRuntime asks the daemon what the container runtime has.
func askRuntime(ctx context.Context, c *client.Client) (runtimePods, error) {
	runtime, err := c.Runtime(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code == http.StatusNotFound {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	pods := make(runtimePods, len(runtime.Pods))
	for i := range runtime.Pods {
		pods[runtime.Pods[i].UID] = &runtime.Pods[i]
	}
	return pods, nil
}

// columns returns how many of the pod's containers run, how often they were begun
// again, and how old the pod's sandbox is.
func (r runtimePods) columns(pod *v1.Pod) []string {
	running := r[string(pod.UID)]
	if running == nil {
		return []string{fmt.Sprintf("0/%d", len(pod.Spec.Containers)), "0", "<none>"}
	}
	wanted := make(map[string]bool, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		wanted[pod.Spec.Containers[i].Name] = true
	}
	ready := 0
	for _, c := range running.Containers {
		if wanted[c.Name] && c.State == "running" {
			ready++
		}
	}
	return []string{fmt.Sprintf("%d/%d", ready, len(wanted)), fmt.Sprint(running.Restarts), age(running.CreatedAt)}
}
