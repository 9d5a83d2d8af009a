package main

import (
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/cmd/podconfigd/logsink"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// logCloseTimeout is how long the daemon waits at its end for log lines to be written.
const logCloseTimeout = time.Second

// newDaemonCommand returns the command that runs the daemon.
func newDaemonCommand() *cobra.Command {
	opts := configfile.NewOptions()
	gates := featuregate.NewFeatureGate()
	_ = logsapi.AddFeatureGates(gates) // fails only where a gate is added twice

	cmd := &cobra.Command{
		Use:   "podconfigd",
		Short: "Merge the pods of a node and serve every change on a unix socket",
		Long: `podconfigd decides which pods belong on this node, with the rules of the kubelet.
It takes the pods from a manifest directory, a manifest URL and an apiserver.
It serves every change on a unix socket as one ordered, resumable stream.

Without a subcommand, podconfigd runs the daemon. podconfigctl reads it and controls it.`,
		Example: `  # Run the daemon with a directory of static pod manifests
  podconfigd --pod-manifest-path /etc/kubernetes/manifests

  # Run the daemon with a configuration file
  podconfigd --config /etc/podconfigd/podconfigd.yaml

  # Print the pods of the node, then every change
  podconfigctl watch

  # Read the stream with another client
  curl -N --unix-socket /run/podconfigd/podconfigd.sock http://localhost/v1alpha1/updates`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hups := make(chan os.Signal, 1)
			signal.Notify(hups, syscall.SIGHUP)
			defer signal.Stop(hups)
			loaded, err := opts.Load(cmd.Flags())
			if err != nil {
				return err
			}
			sink := logsink.New(os.Stderr, logsink.DefaultSize)
			defer sink.Close(logCloseTimeout)
			metrics := prometheus.NewRegistry()
			metric.In(metrics, "log").CounterFunc("dropped_lines_total", "Log lines that were dropped because stderr was not read or is broken.",
				func() float64 { return float64(sink.Dropped()) })
			r := newReloader(hups, metrics, loaded, func() (*configfile.Configuration, error) { return opts.Load(cmd.Flags()) })
			loaded.Collectors = append(loaded.Collectors, metrics)
			log := sync.OnceValue(func() error { return startLogging(sink, &loaded.Logging, gates) })
			if !loaded.Faulty() && loaded.Unnamed() {
				if err := log(); err != nil {
					return err
				}
				if err := daemon.AwaitName(cmd.Context(), loaded.Config); err != nil {
					return ended(cmd.Context(), err)
				}
			}
			d, err := start(loaded)
			if err != nil {
				return err
			}
			if err := log(); err != nil {
				return err
			}
			if files := loaded.Files(); len(files) > 0 {
				klog.Background().Info("Configuration loaded", "files", files)
			}
			return runDaemon(cmd.Context(), d, r)
		},
	}
	opts.AddTo(cmd.Flags())
	command.CompleteOptions(cmd)
	return cmd
}

// startLogging makes the daemon log to the sink. So a blocked or broken stderr neither
// blocks nor ends the daemon.
func startLogging(sink *logsink.Sink, config *logsapi.LoggingConfiguration, gates featuregate.FeatureGate) error {
	// A write to a broken stderr raises SIGPIPE, which would end the process. A handler, unlike
	// an ignored signal, is not inherited by the credential plugins that the daemon starts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log.SetOutput(sink)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, sink))
	return logsapi.ValidateAndApplyWithOptions(config, &logsapi.LoggingOptions{ErrorStream: sink, InfoStream: sink}, gates)
}
