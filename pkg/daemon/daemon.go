// Package daemon is podconfigd as a library. It builds the sources, the merge, the sync
// loop, the journal and the server, connects them, and runs them.
//
//	d, err := daemon.New(daemon.Config{PodConfigdConfiguration: v1alpha1.PodConfigdConfiguration{
//		StaticPodPath: "/etc/kubernetes/manifests",
//		Socket:        new("/run/agent/pods.sock"),
//	}})
//	if err != nil {
//		return err
//	}
//	return d.Run(ctx)
//
// New validates the configuration and builds the parts. It opens no socket and starts no
// goroutine. Run opens the sockets and runs the parts. It returns when all goroutines that
// it started have ended.
//
// The command podconfigd adds flags to this package.
package daemon

import (
	"context"
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
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/daemon/systemd"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// Daemon has all parts of podconfigd.
type Daemon struct {
	// config is the configuration at the start. current is the configuration after the last reload. It
	// belongs to the goroutine of sources.run.
	config  Config
	current Config
	node    types.NodeName
	started time.Time
	// loopThreshold is loopThreshold; tests shorten it.
	loopThreshold time.Duration

	podConfig *config.PodConfig
	self      *node
	sources   *runner
	// runtime is nil without a container runtime.
	runtime    *runtime
	kubelet    *kubelet.Finder
	devices    *devices.Lister    // nil if it is off
	containers *containers.Stream // nil without a container runtime
	podsAPI    *podsapi.Client
	loop       *syncloop.Loop
	journal    *journal.Journal
	server     *server.Server
	// notifier is nil without a service manager.
	notifier *systemd.Notifier
	// parts are the parts that Run runs, besides the server and the notifier. A reload gives them the configuration in this order.
	parts []part

	state     *state
	revisions revisions
	// onDisk is how the configuration differs from what the daemon runs with.
	onDisk onDisk
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
	node, err := manifest.NodeName(c.HostnameOverride)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), wire.Encodes())
	registry.MustRegister(c.Collectors...)

	d := &Daemon{config: c, current: c, node: node, started: time.Now(), loopThreshold: loopThreshold, podConfig: config.NewPodConfig()}
	if d.state, err = openState(&c, node, registry); err != nil {
		return nil, err
	}
	if err := d.assemble(registry); err != nil {
		d.state.close()
		return nil, err
	}
	return d, nil
}

// Run opens the sockets and runs all parts until the context is done or one part fails.
// It returns when all parts have ended. The error is the cause of the context, or the
// error of the part that failed. Run can be called once. It logs with the logger of the
// context.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.runtime.close()
	secure, err := d.newHTTPS(ctx)
	if err != nil {
		d.state.close()
		return err
	}
	defer secure.close()
	sockets, err := listen(ctx, &d.config, secure)
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
	for _, p := range d.parts {
		if p.run != nil {
			group.Go(func() error { return p.run(ctx) })
		}
	}
	sockets.serve(ctx, group, d.server)
	if d.notifier != nil {
		group.Go(func() error { return d.notifier.Run(ctx) })
	}
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

// Reloading tells the service manager, if there is one, that the configuration is being reloaded, while Run runs. The
// caller calls done when this has ended, whatever the result.
func (d *Daemon) Reloading(ctx context.Context) (done func()) {
	if d.notifier == nil {
		return func() {}
	}
	return d.notifier.Reloading(ctx)
}

// part is something that the daemon runs, or that takes changes of the configuration. Only what is configured is a part. All
// fields except name are optional.
type part struct {
	name string
	// run returns when the context is done, or with an error, which ends the daemon.
	run func(context.Context) error
	// apply takes the configuration after a reload, while the parts run. Most of it is as before: the part compares. Its error is
	// the cause of the context.
	apply func(context.Context, *Config) error
	// status adds the part's own status.
	status func(*v1alpha1.Status)
	// ready are checks of /readyz.
	ready []server.Check
}

// applied returns the apply function of a part that takes a configuration without waiting.
func applied(take func(*Config)) func(context.Context, *Config) error {
	return func(_ context.Context, c *Config) error {
		take(c)
		return nil
	}
}
