package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podtable"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// runtimePods are the pods of the container runtime by UID, or nil if they are not known.
type runtimePods map[string]*v1alpha1.RuntimePod

// askRuntime requests the pods of the container runtime from the daemon. There are none if the
// daemon has no runtime, or if a user of https may read only the pods.
func askRuntime(ctx context.Context, c *client.Client) (runtimePods, error) {
	runtime, err := c.Runtime(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && (refused.Code == http.StatusNotFound || refused.Code == http.StatusForbidden) {
		return nil, nil //nolint:nilnil // there are none
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

// columns returns the READY, STATUS, RESTARTS and AGE columns of the pod: those of kubectl,
// but for the age, which is that of the sandbox.
func (r runtimePods) columns(pod *v1.Pod) []string {
	row := make([]string, 0, 4)
	for _, cell := range podtable.Cells(pod, time.Now())[1:4] {
		row = append(row, fmt.Sprint(cell))
	}
	if running := r[string(pod.UID)]; running != nil {
		return append(row, age(running.CreatedAt))
	}
	return append(row, "<none>")
}
