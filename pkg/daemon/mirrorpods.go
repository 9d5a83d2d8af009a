package daemon

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/mirror"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// mirrorPods creates mirror pods. Without a manager it does nothing, and all methods work.
type mirrorPods struct {
	manager *mirror.Manager
	writer  *apiserver.PodWriter
}

func newMirrorPods(c *Config, j *journal.Journal, node func() *v1.Node, registry prometheus.Registerer) mirrorPods {
	if !c.CreateMirrorPods {
		return mirrorPods{}
	}
	writer := apiserver.NewPodWriter(c.Kubeconfig, "podconfigd/"+version.Get().Version)
	return mirrorPods{
		manager: mirror.New(mirror.Options{Journal: j, Client: writer, Node: node, Registerer: registry}),
		writer:  writer,
	}
}

func (m mirrorPods) run(ctx context.Context) error {
	if m.manager == nil {
		return nil
	}
	defer m.writer.Close()
	return m.manager.Run(ctx)
}

// status adds the status of the mirror pods.
func (m mirrorPods) status(status v1alpha1.Status) v1alpha1.Status {
	if m.manager != nil {
		status.MirrorPods = new(m.manager.Status())
	}
	return status
}
