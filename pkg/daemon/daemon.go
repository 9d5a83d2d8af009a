package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// loopThreshold is how long the sync loop may stand still and be healthy; its tickers
// move it every second.
const loopThreshold = 30 * time.Second

// Daemon is the parts of podconfigd, put together.
type Daemon struct {
	config  Config
	node    types.NodeName
	started time.Time

	podConfig *config.PodConfig
	sources   []source
	runtime   *runtime
	loop      *syncloop.Loop
	journal   *journal.Journal
	server    *server.Server

	revisions revisions
	// warning is what is wrong and does not keep the daemon from running.
	warning error
}

// New returns a daemon of that configuration. Its error has everything that is wrong
// with it.
func New(c Config) (*Daemon, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	node, err := NodeName(c.NodeName)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), wire.Encodes())

	d := &Daemon{config: c, node: node, started: time.Now(), podConfig: config.NewPodConfig()}
	if d.sources, err = newSources(&c, node, registry); err != nil {
		return nil, err
	}
	for i := range d.sources {
		d.sources[i].sets = d.podConfig.Channel(d.sources[i].name)
	}
	d.revisions = revisionsBeside(c.Socket)
	floor, floorErr := d.revisions.floor()
	d.warning = floorErr
	d.journal = journal.New(journal.Options{
		Sources: d.podConfig.Sources(), MaxUpdates: c.JournalMaxUpdates, MaxBytes: c.JournalMaxBytes, Registerer: registry,
		Floor: floor, Reserve: d.revisions.reserve,
	})
	if d.runtime, err = newRuntime(&c, registry); err != nil {
		return nil, err
	}
	d.loop = syncloop.New(syncloop.Options{
		Handler:      d.journal,
		SourcesReady: config.NewSourcesReady(d.podConfig.SeenAllSources), Registerer: registry,
		PLEG: d.runtime.pleg(), SyncFrequency: c.SyncFrequency,
	})
	d.server = server.New(server.Options{
		Journal: d.journal,
		Status:  d.status,
		Live:    d.runtime.checks(server.Check{Name: "syncloop", Check: d.checkLoop}),
		Ready:   []server.Check{{Name: "sources", Check: d.checkSources}},
		Runtime: d.runtime.pods(), Resync: resync(d.loop),
		Version: version.Get(), Registerer: registry, Gatherer: registry,
		Limits: server.Limits{Subscribers: c.MaxSubscribers, SubscribersPerPeer: c.MaxSubscribersPerProcess},
	})
	return d, nil
}

// Run opens the sockets, runs all parts until the context is done or one of them fails,
// and returns when all have ended: with the context's cause, or with what failed. It can
// be called once. It logs with the context's logger.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.runtime.close()
	sockets, err := listen(ctx, &d.config)
	if err != nil {
		return err
	}
	defer sockets.close()
	logger := klog.FromContext(ctx)
	if d.warning != nil {
		logger.Error(d.warning, "The highest revision of the last run is not known; if the clock was set back, a client that resumes without an instance may miss updates")
	}
	stop := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.podConfig.Run(ctx) })
	for _, source := range d.sources {
		group.Go(func() error { return source.Run(ctx, source.sets) })
	}
	group.Go(func() error { return d.journal.Run(ctx) })
	group.Go(func() error { return d.runtime.run(ctx) })
	group.Go(func() error { return d.loop.Run(ctx, d.podConfig.Updates()) })
	group.Go(func() error { return d.server.Run(ctx, sockets.main) })
	if sockets.podsAPI != nil {
		group.Go(func() error { return d.server.RunPodsAPI(ctx, sockets.podsAPI) })
	}
	if sockets.metrics != nil {
		group.Go(func() error { return d.server.RunMetrics(ctx, sockets.metrics) })
	}
	logger.Info("podconfigd started", "version", version.Get().Version, "node", d.node,
		"manifestPath", d.config.StaticPodPath, "socket", d.config.Socket)
	err = group.Wait()
	_ = d.revisions.reserve(d.journal.Revision()) // the one that is there is higher
	if stop.Err() != nil {                        // every part returns the reason
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
		return fmt.Errorf("sync loop was last seen active %v ago; threshold %v", idle.Round(time.Second), loopThreshold)
	}
	return nil
}

func (d *Daemon) checkSources() error {
	if unseen := d.journal.Unseen(); len(unseen) > 0 {
		return fmt.Errorf("not seen yet: %s", strings.Join(unseen, ", "))
	}
	return nil
}

// status adds to the journal's status what the daemon, the sources and the runtime know.
func (d *Daemon) status() v1alpha1.Status {
	status := d.journal.Status()
	status.NodeName, status.StartTime = string(d.node), d.started
	for i := range status.Sources {
		for _, source := range d.sources {
			if merged := &status.Sources[i]; source.name == merged.Name {
				seen, pods := merged.Seen, merged.Pods
				*merged = source.Status()
				merged.Seen, merged.Pods = seen, pods
			}
		}
	}
	return d.runtime.status(status)
}
