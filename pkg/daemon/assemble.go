package daemon

import (
	"context"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/daemon/systemd"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// assemble makes all parts, from the journal on.
func (d *Daemon) assemble(registry *prometheus.Registry) error {
	c := &d.config
	d.revisions = revisionsBeside(*c.Socket)
	floor, err := d.revisions.floor()
	d.warning = err
	names := c.sources()
	d.self = &node{name: d.node, configured: isAddress(c.NodeIP), addresses: newAddresses(c.NodeIP, d.node)}
	opts := journal.Options{
		Sources: names, MaxUpdates: int(*c.JournalMaxUpdates), MaxBytes: *c.JournalMaxBytes, Registerer: registry,
		Floor: floor, Reserve: d.revisions.reserve, Node: d.self.local(),
	}
	if log := d.state.log; log != nil {
		opts.Store, opts.Recovered = log, &d.state.recovered.Recovered
	}
	d.journal = journal.New(opts)
	d.self.put = d.journal.PutNode
	d.state.restore(d.journal, names)
	for name, r := range d.state.restored {
		d.podConfig.Restore(name, r.Pods)
	}
	d.podConfig.LimitRemovals(c.removalLimit(), mend.ReleaseCommand)
	d.podConfig.Instrument(registry)
	if d.runtime, err = newRuntime(c, registry, d.runtimeChanged); err != nil {
		return err
	}
	decoder := manifest.NewDecoder(d.node)
	d.podsAPI = d.newPodsAPI(registry)
	d.kubelet = d.newFinder(decoder, registry)
	d.kubelet.SetIgnoring(len(c.IgnoreManifests) > 0)
	d.sources = newRunner(opener{
		node: d.node, decoder: decoder, alone: func() bool { return !d.kubelet.Present() },
		objects: apiserver.Objects{Node: d.setNode, Namespaces: d.journal.PutNamespaces},
	}, registry, d.podConfig)
	for _, spec := range c.specs() {
		s, err := d.sources.open(spec, d.state.restored[spec.name])
		if err != nil {
			return err
		}
		d.podConfig.Channel(spec.name)
		d.sources.put(spec.name, s)
	}
	d.assembleLoop(registry)
	return nil
}

// assembleLoop makes the parts behind the merge.
func (d *Daemon) assembleLoop(registry *prometheus.Registry) {
	c := &d.config
	loop := syncloop.Options{
		Handler: handler{d.journal}, SourcesReady: d.journal, Registerer: registry,
		PLEG: pleg.None{}, SyncFrequency: c.SyncFrequency.Duration, Restored: d.state.updates,
		Status: c.statusOptions(d.self.hostIPs, d.kubelet.Minor), Kubelet: d.kubelet,
	}
	find := lookup.Options{
		Journal: d.journal, Retention: c.EndedPodsRetention.Duration, MaxEnded: int(*c.EndedPodsMax), Past: d.state.past(), WholePods: d.state.wholePods(),
	}
	policy := access.NewPolicy(c.rules())
	serve := server.Options{
		Journal: d.journal, Policy: policy, PolicyAfter: d.state.servedRules().others(policy, d.journal.Revision()),
		Status: d.status, Release: d.release, History: d.state.history(),
		Version: version.Get(), Registerer: registry, Gatherer: registry, Limits: c.limits(),
	}
	if d.runtime != nil {
		d.self.version = d.runtime.client.Version
		d.runtime.connect(&loop, &find, &serve)
	}
	loop.Status.Kubelet = d.podsAPI
	d.loop, d.state.updates = syncloop.New(loop), nil
	find.StatusBy = d.loop.StatusBy
	resolveOwners, listDevices := d.resolveOwners(&find, registry), d.listDevices(&find, registry)
	if d.runtime != nil {
		d.runtime.orphans = d.loop.Orphans
	}
	serve.Lookup, serve.Owners = lookup.New(find), c.Owners
	streamContainers := d.streamContainers(&serve, registry)
	d.parts = slices.Concat(d.required(serve.Lookup), d.state.parts())
	if d.runtime != nil {
		d.parts = append(d.parts, d.runtime.part())
	}
	d.parts = append(d.parts, d.statusOfKubelet())
	d.parts = append(d.parts, d.apiserverParts(registry)...)
	d.parts = append(d.parts, resolveOwners...)
	d.parts = append(d.parts, listDevices...)
	d.parts = append(d.parts, streamContainers...)
	serve.Resync = d.resync
	serve.Live, serve.Ready = d.live(), d.ready()
	d.server = server.New(serve)
	if c.NotifyServiceManager {
		d.notifier = systemd.NewNotifier(systemd.Options{Live: d.faults, Status: d.statusLine})
	}
}

// required are the parts that each daemon has.
func (d *Daemon) required(find *lookup.Lookup) []part {
	return []part{
		{
			name: "sources that end", // new rules must not show their pods, nor a new limit apply their held sets
			apply: func(ctx context.Context, c *Config) error {
				if err := d.sources.retire(ctx, c.specs()); err != nil {
					return err
				}
				return d.journal.WaitSources(ctx, c.sources())
			},
		},
		{
			name: "server",
			apply: func(ctx context.Context, c *Config) error {
				d.applyAccess(klog.FromContext(ctx), c)
				d.server.SetLimits(c.limits()) // each source has descriptors that connections never take
				return nil
			},
		},
		{
			name: "merge", run: d.podConfig.Run,
			apply: func(ctx context.Context, c *Config) error { return d.podConfig.SetRemovalLimit(ctx, c.removalLimit()) },
		},
		{
			name:   "sources", // after the server: a new one must not be shown to those who may not see it
			status: d.nameProblem,
			run: func(ctx context.Context) error {
				if d.config.waiting != "" {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return d.sources.run(ctx, func(ctx context.Context) {
					d.podsAPI.Ask(ctx)
					d.kubelet.Ask(ctx)
				})
			},
			apply: func(ctx context.Context, c *Config) error {
				d.kubelet.SetIgnoring(len(c.IgnoreManifests) > 0)
				return d.sources.begin(ctx, c.specs())
			},
			ready: []server.Check{{Name: "sources", Check: d.checkSources}},
		},
		{name: "kubelet", run: d.kubelet.Run, status: func(status *v1alpha1.Status) {
			status.Kubelet = d.kubelet.Status()
			d.kubelet.Compare(status)
		}},
		{
			name: "journal", run: d.journal.Run,
			apply: applied(func(c *Config) { d.journal.SetLimits(int(*c.JournalMaxUpdates), *c.JournalMaxBytes) }),
		},
		{name: "node", run: d.self.run},
		{
			name:   "addresses",
			run:    func(ctx context.Context) error { return d.self.addresses.run(ctx, d.self.moved) },
			status: d.addressProblem,
		},
		{
			name: "loop",
			run: func(ctx context.Context) error {
				d.podsAPI.Ask(ctx)
				d.self.addresses.ask(ctx) // the statuses have them
				return d.loop.Run(ctx, d.podConfig.Updates())
			},
			apply: func(ctx context.Context, c *Config) error {
				return d.loop.SetSyncFrequency(ctx, c.SyncFrequency.Duration)
			},
		},
		{name: "lookup", run: find.Run},
	}
}

// handler makes the journal the syncloop.SyncHandler.
type handler struct{ *journal.Journal }

// HandlePodLifecycleEvent gives the journal the event as subscribers get it.
func (h handler) HandlePodLifecycleEvent(_ context.Context, pod *v1.Pod, e *pleg.PodLifecycleEvent) {
	h.RecordEvent(pod, &v1alpha1.Event{
		Type: string(e.Type), PodUID: string(e.ID), ContainerID: e.ContainerID, Container: e.Container, ExitCode: e.ExitCode,
	})
}

// limits returns the limits of the server.
func (c *Config) limits() conn.Limits {
	return conn.Limits{
		Subscribers: int(*c.MaxSubscribers), SubscribersPerPeer: int(*c.MaxSubscribersPerProcess),
		Network:     c.listensOn(socket.SchemeHTTP, socket.SchemeHTTPS),
		Descriptors: max(1, descriptorLimit()-reservedDescriptors-descriptorsPerSource*(len(c.FileSources)+len(c.HTTPSources))),
	}
}

// reservedDescriptors is the number of file descriptors that connections of clients never
// take. The sources, the container runtime, the listeners, the log and the Go runtime use
// them, about 20 with all features.
const reservedDescriptors = 32

// descriptorsPerSource is the number of file descriptors of each source with a name of its own:
// inotify, a manifest that is read, and a connection.
const descriptorsPerSource = 4

// descriptorLimit returns the maximum number of file descriptors of the process. The Go
// runtime has raised the soft limit to the hard limit.
func descriptorLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32 // this does not happen: the limit always exists
	}
	return int(min(limit.Cur, math.MaxInt32))
}
