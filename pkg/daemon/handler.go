package daemon

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// handler makes the journal the syncloop.SyncHandler.
type handler struct{ *journal.Journal }

// HandlePodLifecycleEvent gives the journal the event as subscribers get it.
func (h handler) HandlePodLifecycleEvent(_ context.Context, pod *v1.Pod, e *pleg.PodLifecycleEvent) {
	h.RecordEvent(pod, &v1alpha1.Event{
		Type: string(e.Type), PodUID: string(e.ID), ContainerID: e.ContainerID, Container: e.Container, ExitCode: e.ExitCode,
	})
}
