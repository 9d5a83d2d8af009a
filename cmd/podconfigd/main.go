// Command podconfigd merges the pods from the sources of a node and serves every change
// on a unix socket.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
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
	"github.com/podconfigd/podconfigd/cmd/podconfigd/ownership"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

func main() {
	signal.Ignore(syscall.SIGHUP) // a reload that comes before the daemon can take it does not end it
	os.Exit(command.Main(newRootCommand()))
}

// newRootCommand returns the command of the daemon with its subcommands.
func newRootCommand() *cobra.Command {
	cmd := newDaemonCommand()
	cmd.AddCommand(newPrepareCommand())
	cmd.AddCommand(movedCommands()...)
	command.SetUp(cmd)
	return cmd
}

// moved are the commands of podconfigctl that podconfigd had.
var moved = []string{"config", "get", "history", "lookup", "proxy", "release", "resync", "status", "top", "validate", "watch"}

// movedCommands returns commands that name the new ones.
func movedCommands() (commands []*cobra.Command) {
	for _, name := range moved {
		say := func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "podconfigd: %s is a command of podconfigctl: use %q\n", name, "podconfigctl "+name)
		}
		c := &cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				say(cmd, args)
				return &command.ExitError{Code: exitMoved}
			},
		}
		c.SetHelpFunc(say)
		commands = append(commands, c)
	}
	return commands
}

// exitMoved is the exit code of a command that podconfigd no longer has.
const exitMoved = 2

// start makes the daemon. The error has every fault of the configuration.
func start(loaded *configfile.Configuration) (*daemon.Daemon, error) {
	if loaded.Faulty() {
		return nil, loaded.Check()
	}
	d, err := daemon.New(loaded.Config)
	if err != nil {
		return nil, loaded.Locate(err)
	}
	return d, nil
}

// runDaemon runs the daemon until the context is done, and reloads its configuration.
func runDaemon(ctx context.Context, d *daemon.Daemon, r *reloader) error {
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	var others sync.WaitGroup
	others.Go(func() { r.run(running, d) })
	others.Go(func() { freeMemory(running) })
	err := d.Run(running)
	stop()
	others.Wait()
	return ended(ctx, err)
}

// startTime is how long a start takes at most, with few exceptions.
const startTime = 10 * time.Second

// freeMemory gives the memory back that only the start needed.
func freeMemory(ctx context.Context) {
	if await.For(ctx, startTime) == nil {
		runtime.GC() // what is in pools is garbage after two collections
		debug.FreeOSMemory()
	}
}

// ended returns the error, unless the context ended, which is a normal stop.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// newPrepareCommand returns the command of the init container of deploy/kubernetes.
func newPrepareCommand() *cobra.Command {
	var owner string
	cmd := &cobra.Command{
		Use:   "prepare --owner UID:GID DIR...",
		Short: "Create directories for a daemon that does not run as root",
		Long: `Create the directories for the socket and the state of a daemon that does not run as root, and
give them to its user. It runs as root before the daemon starts, for example in an init container.
Of root's capabilities it needs CAP_CHOWN.

A directory that belongs to the user already stays as it is. Otherwise, the user gets the files
of podconfigd in it too. If there is anything else in it, nothing is changed and it is an error:
give podconfigd a directory of its own. A symbolic link in place of a directory is an error too,
and so is a file with a second name (a hard link).`,
		Example: `  # Create the directories for a daemon that runs as user and group 65532
  podconfigd prepare --owner 65532:65532 /run/podconfigd /var/lib/podconfigd`,
		Args: command.SomeArgs("DIR", 0),
		RunE: func(_ *cobra.Command, args []string) error {
			to, err := ownership.ParseOwner(owner)
			if err != nil {
				return fmt.Errorf("--owner: %w", err)
			}
			for _, dir := range args {
				if err := ownership.Give(dir, to, daemon.MadeFile); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "", "User and group that get the directories, as UID:GID.")
	return cmd
}

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
