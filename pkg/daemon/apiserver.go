package daemon

import (
	"context"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/events"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/mirror"
	"github.com/podconfigd/podconfigd/pkg/owners"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// apiserverParts are the parts that write to the apiserver: events, if it is a source, and mirror pods.
func (d *Daemon) apiserverParts(registry prometheus.Registerer) (parts []part) {
	c := &d.config
	if c.apiserver() && c.waiting == "" {
		parts = append(parts, d.eventWriter(apiserver.NewPoster(c.Kubeconfig, userAgent()), registry))
	}
	if c.CreateMirrorPods {
		parts = append(parts, d.mirrorPods(apiserver.NewPodWriter(c.Kubeconfig, userAgent()), registry))
	}
	return parts
}

// userAgent is that of all requests to the apiserver.
func userAgent() string { return "podconfigd/" + version.Get().Version }

// eventWriter writes events.
func (d *Daemon) eventWriter(poster *apiserver.Poster, registry prometheus.Registerer) part {
	c := &d.config
	recorder := events.New(events.Options{
		Node: d.node, Client: poster, Sources: d.sourcesForEvents, MirrorPods: d.journal.MirrorPods,
		QPS: int(*c.EventRecordQPS), Burst: int(*c.EventBurst), Registerer: registry,
	})
	return part{
		name: "events",
		run: func(ctx context.Context) error {
			defer poster.Close()
			return recorder.Run(ctx)
		},
		apply: applied(func(c *Config) { recorder.SetLimits(int(*c.EventRecordQPS), int(*c.EventBurst)) }),
	}
}

// sourcesForEvents returns the status of the sources, with their held sets.
func (d *Daemon) sourcesForEvents() []v1alpha1.SourceStatus {
	all := d.sources.statuses()
	for i := range all {
		if held, ok := d.podConfig.Held(all[i].Name); ok {
			all[i].Held = heldSet(held)
		}
	}
	return all
}

// mirrorPods creates mirror pods.
func (d *Daemon) mirrorPods(writer *apiserver.PodWriter, registry prometheus.Registerer) part {
	manager := mirror.New(mirror.Options{Journal: d.journal, Client: writer, Node: d.self.inAPIServer, Registerer: registry})
	return part{
		name: "mirror pods",
		run: func(ctx context.Context) error {
			defer writer.Close()
			return manager.Run(ctx)
		},
		status: func(status *v1alpha1.Status) { status.MirrorPods = new(manager.Status()) },
	}
}

// ownersName is the name of the file of the owners in the state directory.
const ownersName = "owners.json"

// resolveOwners makes the part that finds the owners of pods, and gives them to lookups; nothing if it is off.
func (d *Daemon) resolveOwners(find *lookup.Options, registry prometheus.Registerer) []part {
	if !d.config.Owners {
		return nil
	}
	d.podConfig.FollowOwners()
	reader := apiserver.NewMetadataReader(d.config.Kubeconfig, userAgent())
	opts := owners.Options{
		Journal: d.journal, Client: reader, Node: d.self.inAPIServer, Retention: find.Retention, Most: find.MaxEnded, Registerer: registry,
	}
	if d.state.log != nil {
		opts.File = filepath.Join(d.state.dir, ownersName)
	}
	resolver := owners.New(opts)
	find.Owners, d.state.owners = resolver.Of, resolver.Of
	return []part{{
		name: "owners",
		run: func(ctx context.Context) error {
			defer reader.Close()
			return resolver.Run(ctx)
		},
		status: func(status *v1alpha1.Status) { status.Owners = resolver.Status() },
	}}
}
