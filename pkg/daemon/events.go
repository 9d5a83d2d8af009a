package daemon

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/events"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// eventWriter writes events to the apiserver. Without an apiserver, it has no recorder, and all
// methods work.
type eventWriter struct {
	recorder *events.Recorder
	poster   *apiserver.Poster
}

func (d *Daemon) newEventWriter(registry prometheus.Registerer) *eventWriter {
	c := &d.config
	if !c.apiserver() {
		return &eventWriter{}
	}
	poster := apiserver.NewPoster(c.Kubeconfig, "podconfigd/"+version.Get().Version)
	return &eventWriter{poster: poster, recorder: events.New(events.Options{
		Node: d.node, Client: poster, Sources: d.sourcesForEvents, MirrorPods: d.journal.MirrorPods,
		QPS: int(*c.EventRecordQPS), Burst: int(*c.EventBurst), Registerer: registry,
	})}
}

func (w *eventWriter) run(ctx context.Context) error {
	if w.recorder == nil {
		return nil
	}
	defer w.poster.Close()
	return w.recorder.Run(ctx)
}

func (w *eventWriter) setLimits(c *Config) {
	if w.recorder != nil {
		w.recorder.SetLimits(int(*c.EventRecordQPS), int(*c.EventBurst))
	}
}

// sourcesForEvents returns the status of the sources, with their held sets.
func (d *Daemon) sourcesForEvents() []v1alpha1.SourceStatus {
	all := d.sources.statuses()
	for i := range all {
		if held, is := d.podConfig.Held(all[i].Name); is {
			all[i].Held = heldSet(held)
		}
	}
	return all
}
