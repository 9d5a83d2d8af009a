package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// loopThreshold is for how long the sync loop may stand still and be healthy; its
// tickers move it every second.
const loopThreshold = 30 * time.Second

type daemonOptions struct {
	manifestPath       string
	fileCheckFrequency time.Duration
	hostnameOverride   string
	socket             string
	socketMode         string
	socketGroup        string
	metricsAddress     string
	maxUpdates         int
	maxBytes           int64
}

func newDaemonOptions() *daemonOptions {
	return &daemonOptions{
		fileCheckFrequency: file.DefaultPeriod,
		socket:             client.ServerSocket(),
		socketMode:         "0660",
		maxUpdates:         journal.DefaultMaxUpdates,
		maxBytes:           journal.DefaultMaxBytes,
	}
}

func (o *daemonOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.manifestPath, "pod-manifest-path", o.manifestPath,
		"directory of static pod manifests, or a single one; files whose names begin with a dot are ignored")
	flags.DurationVar(&o.fileCheckFrequency, "file-check-frequency", o.fileCheckFrequency,
		"how often the manifest path is listed whatever inotify says")
	flags.StringVar(&o.hostnameOverride, "hostname-override", o.hostnameOverride,
		"the node's name; the hostname if empty. It is part of static pods' names and UIDs")
	flags.StringVar(&o.socket, "socket", o.socket, "path of the unix socket to serve")
	flags.StringVar(&o.socketMode, "socket-mode", o.socketMode, "the socket file's mode, in octal")
	flags.StringVar(&o.socketGroup, "socket-group", o.socketGroup, "name or number of the socket file's group; the process's if empty")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress,
		"host:port to serve /metrics and health on besides; not at all if empty")
	flags.IntVar(&o.maxUpdates, "journal-max-updates", o.maxUpdates, "how many updates are kept for subscribers to resume from")
	flags.Int64Var(&o.maxBytes, "journal-max-bytes", o.maxBytes, "how many bytes of pods, as protobuf, those updates may have")
}

// validate returns all that is wrong with the options at once.
func (o *daemonOptions) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.manifestPath == "" {
		fail("there is no source of pods: name a directory with --pod-manifest-path")
	}
	if o.fileCheckFrequency < time.Millisecond {
		fail("--file-check-frequency: %v is too short: want 1ms or more", o.fileCheckFrequency)
	}
	if o.socket == "" {
		fail("there is no place for the socket, for XDG_RUNTIME_DIR is not set: name one with --socket")
	}
	if _, err := o.mode(); err != nil {
		fail("--socket-mode: %w", err)
	}
	if o.maxUpdates < 1 {
		fail("--journal-max-updates: %d: want 1 or more", o.maxUpdates)
	}
	if o.maxBytes < 1 {
		fail("--journal-max-bytes: %d: want 1 or more", o.maxBytes)
	}
	if o.metricsAddress != "" {
		if _, _, err := net.SplitHostPort(o.metricsAddress); err != nil {
			fail("--metrics-bind-address: %w", err)
		}
	}
	return errors.Join(errs...)
}

func (o *daemonOptions) mode() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(o.socketMode, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%q is not a file mode: want octal digits, as in 0660", o.socketMode)
	}
	return fs.FileMode(mode), nil
}

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
	return types.NodeName(name), nil
}

// runDaemon puts the parts together and runs them until the context is done.
func runDaemon(ctx context.Context, o *daemonOptions) error {
	started := time.Now()
	node, err := nodeName(o.hostnameOverride)
	if err != nil {
		return err
	}
	mode, err := o.mode()
	if err != nil {
		return err
	}
	logger := klog.Background()
	ctx = klog.NewContext(ctx, logger)
	listener, err := server.Listen(ctx, server.ListenOptions{Path: o.socket, Mode: mode, Group: o.socketGroup})
	if err != nil {
		return err
	}
	defer listener.Close()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	podConfig := config.NewPodConfig()
	files := file.New(file.Options{
		Path: o.manifestPath, Decoder: manifest.NewDecoder(node), Period: o.fileCheckFrequency, Registerer: registry,
	})
	fileSets := podConfig.Channel(config.FileSource)
	updates := journal.New(journal.Options{
		Sources: podConfig.Sources(), MaxUpdates: o.maxUpdates, MaxBytes: o.maxBytes, Registerer: registry,
	})
	loop := syncloop.New(syncloop.Options{
		Handler: updates, Pods: updates,
		SourcesReady: config.NewSourcesReady(podConfig.SeenAllSources), Registerer: registry,
	})
	socket := server.New(server.Options{
		Journal: updates,
		Status:  func() v1alpha1.Status { return daemonStatus(updates, files, node, started) },
		Live:    []server.Check{{Name: "syncloop", Check: loopCheck(loop, started)}},
		Ready:   []server.Check{{Name: "sources", Check: sourcesCheck(updates)}},
		Version: version.Get(), Registerer: registry, Gatherer: registry,
	})

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return podConfig.Run(ctx) })
	group.Go(func() error { return files.Run(ctx, fileSets) })
	group.Go(func() error { return loop.Run(ctx, podConfig.Updates()) })
	group.Go(func() error { return socket.Run(ctx, listener) })
	if o.metricsAddress != "" {
		tcp, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.metricsAddress)
		if err != nil {
			return fmt.Errorf("--metrics-bind-address: %w", err)
		}
		group.Go(func() error { return socket.RunMetrics(ctx, tcp) })
	}
	logger.Info("podconfigd started", "version", version.Get().Version, "node", node,
		"manifestPath", o.manifestPath, "socket", o.socket)
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
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
		var unseen []string
		for _, s := range updates.Status().Sources {
			if !s.Seen {
				unseen = append(unseen, s.Name)
			}
		}
		if len(unseen) > 0 {
			return fmt.Errorf("not seen yet: %s", strings.Join(unseen, ", "))
		}
		return nil
	}
}

// daemonStatus adds to the journal's status what the daemon and the sources know.
func daemonStatus(updates *journal.Journal, files *file.Source, node types.NodeName, started time.Time) v1alpha1.Status {
	status := updates.Status()
	status.NodeName, status.StartTime = string(node), started
	for i := range status.Sources {
		if s := &status.Sources[i]; s.Name == config.FileSource {
			fileStatus(s, files.Status())
		}
	}
	return status
}

func fileStatus(into *v1alpha1.SourceStatus, from file.Status) {
	into.Degraded, into.DegradedSince, into.LastError = from.Degraded, from.DegradedSince, from.LastError
	into.LastChange = from.LastChange
	into.File = &v1alpha1.FileStatus{
		Path: from.Path, Absent: from.Absent, Watch: from.Watch, WatchError: from.WatchError,
		Overflows: from.Overflows, Settling: from.Settling, Manifests: make([]v1alpha1.Manifest, len(from.Manifests)),
	}
	for i, v := range from.Manifests {
		into.File.Manifests[i] = v1alpha1.Manifest{
			Path: v.Path, State: string(v.State), Namespace: v.Namespace, Name: v.Name, UID: v.UID,
			Reason: v.Reason, Message: v.Message, Warnings: v.Warnings,
		}
	}
}
