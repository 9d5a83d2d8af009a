package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
	"github.com/podconfigd/podconfigd/pkg/tracing"
)

// loopThreshold is the time without an iteration of the sync loop after which the daemon
// is not live. The tickers of the loop start an iteration every second.
const loopThreshold = 30 * time.Second

// Daemon has all parts of podconfigd.
type Daemon struct {
	// config is the configuration of the start. current is what the daemon runs with. It
	// belongs to the goroutine of sources.run.
	config  Config
	current Config
	node    types.NodeName
	started time.Time

	podConfig *config.PodConfig
	// tracer is nil if nothing is traced.
	tracer  *tracing.Tracer
	self    *node
	sources *runner
	runtime *runtime
	kubelet *kubelet.Finder
	loop    *syncloop.Loop
	journal *journal.Journal
	lookup  *lookup.Lookup
	mirrors mirrorPods
	server  *server.Server
	events  *eventWriter
	// live and ready are the checks of /livez and /readyz.
	live, ready []server.Check
	// own is the check of the daemon itself. A restart of the daemon does not mend the runtime.
	own server.Check

	state     *state
	revisions revisions
	// notes are notifications for the service manager.
	notes chan note
	// warning is an error that does not stop the daemon. Run logs it.
	warning error
}

// New returns a daemon with that configuration. The error lists every fault of the
// configuration.
func New(c Config) (*Daemon, error) { //nolint:gocritic // it is called once, and embedders pass what they made
	c.PodConfigdConfiguration = *c.DeepCopy()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	node, err := NodeName(c.HostnameOverride)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), wire.Encodes())
	registry.MustRegister(c.Collectors...)

	d := &Daemon{config: c, current: c, notes: make(chan note), node: node, started: time.Now(), podConfig: config.NewPodConfig()}
	if d.state, err = openState(&c, node, registry); err != nil {
		return nil, err
	}
	if err := d.assemble(registry); err != nil {
		d.state.close()
		return nil, err
	}
	return d, nil
}

// assemble makes all parts, from the journal on.
func (d *Daemon) assemble(registry *prometheus.Registry) (err error) {
	c := &d.config
	d.revisions = revisionsBeside(*c.Socket)
	floor, floorErr := d.revisions.floor()
	d.warning = floorErr
	names := c.sources()
	d.self = &node{name: d.node, configured: isAddress(c.NodeIP), addresses: nodeIPs(c.NodeIP, d.node)}
	d.journal = journal.New(journal.Options{
		Sources: names, MaxUpdates: int(*c.JournalMaxUpdates), MaxBytes: *c.JournalMaxBytes, Registerer: registry,
		Floor: floor, Reserve: d.revisions.reserve, Store: d.state.log, Recovered: d.state.recovered,
		Node: d.self.local(),
	})
	d.self.put = d.journal.PutNode
	d.state.restore(d.journal, names)
	for name, r := range d.state.restored {
		d.podConfig.Restore(name, r.Pods)
	}
	d.podConfig.LimitRemovals(c.removalLimit())
	d.podConfig.Instrument(registry)
	if d.tracer = c.newTracer(string(d.node), registry); d.tracer != nil {
		d.podConfig.SetTracer(d.tracer)
	}
	if d.runtime, err = newRuntime(c, registry, func() { d.kubelet.Notice() }); err != nil {
		return err
	}
	d.self.version = d.runtime.version()
	decoder := manifest.NewDecoder(d.node)
	d.kubelet = d.newFinder(decoder, registry)
	d.sources = newRunner(opener{
		node: d.node, decoder: decoder,
		objects: apiserver.Objects{Node: d.setNode, Namespace: d.journal.PutNamespace, Namespaces: d.journal.PutNamespaces},
	}, registry, d.podConfig)
	for _, spec := range c.specs() {
		s, err := d.sources.open(spec, d.state.restored[spec.name])
		if err != nil {
			return err
		}
		d.podConfig.Channel(spec.name)
		d.sources.put(spec.name, s)
	}
	d.loop = syncloop.New(syncloop.Options{
		Handler: d.journal, SourcesReady: d.journal, Registerer: registry,
		PLEG: d.runtime.pleg(), SyncFrequency: c.SyncFrequency.Duration, Restored: d.state.updates(),
		Status: d.runtime.statusOptions(c, d.self.hostIPs), Kubelet: d.kubelet,
	})
	d.lookup = lookup.New(lookup.Options{Journal: d.journal, Runtime: d.runtime.lookup()})
	d.events = d.newEventWriter(registry)
	d.mirrors = newMirrorPods(c, d.journal, d.self.inAPIServer, registry)
	d.own = server.Check{Name: "syncloop", Check: d.checkLoop}
	d.live = d.runtime.checks(d.own)
	d.ready = d.state.checks(server.Check{Name: "sources", Check: d.checkSources})
	policy := access.NewPolicy(c.rules())
	d.server = server.New(server.Options{
		Journal: d.journal, Policy: policy, PolicyAfter: d.state.servedRules().others(policy, d.journal.Revision()), Status: d.status, Live: d.live, Ready: d.ready,
		Runtime: d.runtime.pods(), Lookup: d.lookup, Resync: d.loop.Resync, Release: d.podConfig.Release, History: d.state.history(),
		Version: version.Get(), Registerer: registry, Gatherer: registry,
		Limits: c.limits(),
	})
	return nil
}

// Run opens the sockets and runs all parts until the context is done or one part fails.
// It returns when all parts have ended. The error is the cause of the context, or the
// error of the part that failed. Run can be called once. It logs with the logger of the
// context.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.runtime.close()
	https, err := d.newHTTPS(ctx)
	if err != nil {
		d.state.close()
		return err
	}
	defer https.close()
	sockets, err := listen(ctx, &d.config)
	if err != nil {
		d.state.close()
		return err
	}
	defer sockets.close()
	logger := klog.FromContext(ctx)
	if d.warning != nil {
		logger.Error(d.warning, "Could not read the highest revision of the last run; if the clock was set back, a client that resumes without an instance can miss updates")
	}
	d.state.report(logger)
	rules, policy := d.state.servedRules(), access.NewPolicy(d.config.rules())
	if err := rules.set(policy, rules.others(policy, d.journal.Revision())); err != nil {
		logger.Error(err, "After a restart, streams start again")
	}
	d.config.warnOfNames(logger, policy)
	d.logConnections(logger)
	stop := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.podConfig.Run(ctx) })
	d.runTracer(ctx, group)
	group.Go(func() error {
		d.kubelet.Ask(ctx) // the first sets have the UIDs of the kubelet
		return d.sources.run(ctx)
	})
	group.Go(func() error { return d.kubelet.Run(ctx) })
	group.Go(func() error { return d.state.run(ctx) })
	group.Go(func() error { return d.journal.Run(ctx) })
	group.Go(func() error { return d.runtime.run(ctx) })
	group.Go(func() error { return d.self.run(ctx) })
	group.Go(func() error { return d.loop.Run(ctx, d.podConfig.Updates()) })
	group.Go(func() error { return d.lookup.Run(ctx) })
	group.Go(func() error { return d.events.run(ctx) })
	group.Go(func() error { return d.mirrors.run(ctx) })
	d.serve(ctx, group, sockets)
	https.serve(ctx, group, d.server, sockets.https)
	group.Go(func() error { return d.serviceManager(ctx).run(ctx) })
	logger.Info("podconfigd started", "version", version.Get().Version, "node", d.node,
		"sources", d.config.sources(), "socket", *d.config.Socket)
	err = group.Wait()
	_ = d.revisions.reserve(d.journal.Revision()) // on failure the file has a higher one
	if stop.Err() != nil {                        // every part returns the cause
		logger.Info("podconfigd stopped")
		return context.Cause(stop)
	}
	return err
}

func (d *Daemon) checkLoop() error {
	last := d.loop.LastActive()
	if last.IsZero() {
		last = d.started
	}
	if idle := time.Since(last); idle > loopThreshold {
		return fmt.Errorf("the sync loop was last active %v ago: the threshold is %v", idle.Round(time.Second), loopThreshold)
	}
	return nil
}

// status returns the status of the journal, completed by the daemon, the sources and the
// runtime.
func (d *Daemon) status() v1alpha1.Status {
	status := d.journal.Status()
	status.NodeName, status.StartTime = string(d.node), d.started
	status.Kubelet = d.kubelet.Status()
	for i := range status.Sources {
		merged := &status.Sources[i]
		if source, is := d.sources.status(merged.Name); is {
			source.Seen, source.Restored, source.Pods = merged.Seen, merged.Restored, merged.Pods
			*merged = source
		}
		if held, is := d.podConfig.Held(merged.Name); is {
			showHeld(merged, held)
		}
	}
	return d.mirrors.status(d.runtime.status(d.state.status(status)))
}
