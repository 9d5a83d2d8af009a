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

// runtimePods are the pods of the container runtime by UID, or nil without a runtime.
type runtimePods map[string]*v1alpha1.RuntimePod

// askRuntime requests the pods of the container runtime from the daemon.
func askRuntime(ctx context.Context, c *client.Client) (runtimePods, error) {
	runtime, err := c.Runtime(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code == http.StatusNotFound {
		return nil, nil //nolint:nilnil // the daemon has no runtime
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

// columns returns the READY, RESTARTS and AGE columns of the pod: the number of running
// containers, the number of restarts, and the age of the sandbox.
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
