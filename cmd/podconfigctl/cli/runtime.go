package cli

import (
	"context"
	"errors"
	"net/http"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// RuntimePods are the pods of the container runtime by UID, or nil if they are not known.
type RuntimePods map[string]*v1alpha1.RuntimePod

// AskRuntime requests the pods of the container runtime from the daemon. There are none if the
// daemon has no runtime, or if a user of https may read only the pods.
func AskRuntime(ctx context.Context, c *client.Client) (RuntimePods, error) {
	runtime, err := c.Runtime(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && (refused.Code == http.StatusNotFound || refused.Code == http.StatusForbidden) {
		return nil, nil //nolint:nilnil // there are none
	}
	if err != nil {
		return nil, err
	}
	pods := make(RuntimePods, len(runtime.Pods))
	for i := range runtime.Pods {
		pods[runtime.Pods[i].UID] = &runtime.Pods[i]
	}
	return pods, nil
}
