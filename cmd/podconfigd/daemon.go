package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// loopThreshold is for how long the sync loop may stand still and be healthy; its
// tickers move it every second.
const loopThreshold = 30 * time.Second

// nodeName returns the node's name as the kubelet has it.
//
// kubelet: k8s.io/component-helpers/node/util GetHostname.
func nodeName(override string) (types.NodeName, error) {
	name := override
	if name == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("finding out the hostname (name the node with --hostname-override): %w", err)
		}
		name = hostname
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return "", errors.New("the node's name is empty: name it with --hostname-override")
	}
	// Every static pod's name ends in it, and the apiserver takes no node of another name.
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q can't be the node's name: name another with --hostname-override: %s", name, problems[0])
	}
	return types.NodeName(name), nil
}

// runDaemon puts the parts together and runs them until the context is done.
func runDaemon(ctx context.Context, o *daemonOptions) error {
	started := time.Now()
	node, err := nodeName(o.hostnameOverride)
	if err != nil {
		return err
	}
	logger := klog.Background()
	ctx = klog.NewContext(ctx, logger)
	sockets, err := listen(ctx, o)
	if err != nil {
		return err
	}
	defer sockets.close()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	podConfig := config.NewPodConfig()
	sources, err := newSources(o, node, registry)
	if err != nil {
		return err
	}
	for i := range sources {
		sources[i].sets = podConfig.Channel(sources[i].name)
	}
	updates := journal.New(journal.Options{
		Sources: podConfig.Sources(), MaxUpdates: o.maxUpdates, MaxBytes: o.maxBytes, Registerer: registry,
	})
	runtime, err := newRuntime(&o.runtime, registry)
	if err != nil {
		return err
	}
	defer runtime.close()
	loop := syncloop.New(syncloop.Options{
		Handler: updates, Pods: updates,
		SourcesReady: config.NewSourcesReady(podConfig.SeenAllSources), Registerer: registry,
		PLEG: runtime.pleg(), SyncFrequency: o.runtime.syncFrequency,
	})
	socket := server.New(server.Options{
		Journal: updates,
		Status:  func() v1alpha1.Status { return runtime.status(daemonStatus(updates, sources, node, started)) },
		Live:    runtime.checks(server.Check{Name: "syncloop", Check: loopCheck(loop, started)}),
		Ready:   []server.Check{{Name: "sources", Check: sourcesCheck(updates)}},
		Runtime: runtime.pods(), Resync: resync(loop),
		Version: version.Get(), Registerer: registry, Gatherer: registry,
		Limits: server.Limits{Subscribers: o.subscribers, SubscribersPerPeer: o.subscribersPerPeer},
	})

	stop := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return podConfig.Run(ctx) })
	for _, source := range sources {
		group.Go(func() error { return source.Run(ctx, source.sets) })
	}
	group.Go(func() error { return runtime.run(ctx) })
	group.Go(func() error { return loop.Run(ctx, podConfig.Updates()) })
	group.Go(func() error { return socket.Run(ctx, sockets.main) })
	if sockets.podsAPI != nil {
		group.Go(func() error { return socket.RunPodsAPI(ctx, sockets.podsAPI) })
	}
	if sockets.metrics != nil {
		group.Go(func() error { return socket.RunMetrics(ctx, sockets.metrics) })
	}
	logger.Info("podconfigd started", "version", version.Get().Version, "node", node,
		"manifestPath", o.manifestPath, "socket", o.socket)
	err = group.Wait()
	if stop.Err() != nil { // it was told to, and every part returns the reason
		logger.Info("podconfigd stopped")
		return nil
	}
	return err
}

func loopCheck(loop *syncloop.Loop, started time.Time) func() error {
	return func() error {
		last := loop.LastActive()
		if last.IsZero() {
			last = started
		}
		if idle := time.Since(last); idle > loopThreshold {
			return fmt.Errorf("sync loop was last seen active %v ago; threshold %v", idle.Round(time.Second), loopThreshold)
		}
		return nil
	}
}

func sourcesCheck(updates *journal.Journal) func() error {
	return func() error {
		if unseen := updates.Unseen(); len(unseen) > 0 {
			return fmt.Errorf("not seen yet: %s", strings.Join(unseen, ", "))
		}
		return nil
	}
}

// daemonStatus adds to the journal's status what the daemon and the sources know.
func daemonStatus(updates *journal.Journal, sources []source, node types.NodeName, started time.Time) v1alpha1.Status {
	status := updates.Status()
	status.NodeName, status.StartTime = string(node), started
	for i := range status.Sources {
		for _, source := range sources {
			if merged := &status.Sources[i]; source.name == merged.Name {
				seen, pods := merged.Seen, merged.Pods
				*merged = source.Status()
				merged.Seen, merged.Pods = seen, pods
			}
		}
	}
	return status
}
