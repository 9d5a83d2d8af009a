package syncloop

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// SyncHandler takes what the loop has. The methods are the kubelet's, but for the
// updates they take, which keep operation and source: a DELETE can be told from an
// UPDATE by them, while the kubelet's handler has to look at each pod.
//
// kubelet: pkg/kubelet/kubelet.go SyncHandler.
type SyncHandler interface {
	HandlePodAdditions(ctx context.Context, update config.PodUpdate)
	// HandlePodUpdates takes UPDATE, and DELETE, which is a graceful deletion.
	HandlePodUpdates(ctx context.Context, update config.PodUpdate)
	HandlePodRemoves(ctx context.Context, update config.PodUpdate)
	HandlePodReconcile(ctx context.Context, update config.PodUpdate)
	// HandlePodSyncs takes pods that did not change but are due to be looked at.
	HandlePodSyncs(ctx context.Context, pods []*v1.Pod)
	// HandlePodLifecycleEvent takes what happened in the runtime. The pod is the
	// present one, or where no source wants it, one of nothing but name and UID.
	HandlePodLifecycleEvent(ctx context.Context, pod *v1.Pod, event *pleg.PodLifecycleEvent)
	// HandlePodOrphans takes all pods that the runtime has and no source wants, when
	// they are others than before. They have nothing but name and UID.
	HandlePodOrphans(ctx context.Context, pods []*v1.Pod)
}
