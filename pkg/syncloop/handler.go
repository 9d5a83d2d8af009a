package syncloop

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// SyncHandler handles the inputs of the loop. The methods have the names of the kubelet.
// They take the whole update, with operation and source. So a handler can distinguish a
// DELETE from an UPDATE without looking at each pod, as the handler of the kubelet must.
//
// kubelet: pkg/kubelet/kubelet.go SyncHandler.
type SyncHandler interface {
	HandlePodAdditions(ctx context.Context, update config.PodUpdate)
	// HandlePodUpdates handles UPDATE, and DELETE, which is a graceful deletion.
	HandlePodUpdates(ctx context.Context, update config.PodUpdate)
	HandlePodRemoves(ctx context.Context, update config.PodUpdate)
	HandlePodReconcile(ctx context.Context, update config.PodUpdate)
	// HandleSourceChange handles a source that was added, or was removed with its pods. The
	// kubelet has no such method: its sources do not change while it runs.
	HandleSourceChange(ctx context.Context, update config.PodUpdate)
	// HandlePodSyncs handles unchanged pods that are due for a sync.
	HandlePodSyncs(ctx context.Context, pods []*v1.Pod)
	// HandlePodLifecycleEvent handles an event of the runtime. pod is the current pod. If no
	// source has the pod, it has only namespace, name and UID.
	HandlePodLifecycleEvent(ctx context.Context, pod *v1.Pod, event *pleg.PodLifecycleEvent)
	// HandlePodOrphans handles all pods in the runtime that are in no source. The loop calls
	// it when these pods change. They have only namespace, name and UID.
	HandlePodOrphans(ctx context.Context, pods []*v1.Pod)
}
