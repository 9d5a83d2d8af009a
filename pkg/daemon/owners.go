package daemon

import (
	"context"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/owners"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

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
