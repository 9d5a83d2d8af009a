// Package history has the command history, which shows what changed on the node.
package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
)

// defaultStateDir is the state directory of the packages.
const defaultStateDir = "/var/lib/podconfigd"

// Options are the flags of history.
type Options struct {
	client.HistoryOptions
	output string
	// stateDir is read instead of asking the daemon. fallback is read if no daemon runs. It is
	// empty for a daemon of another machine.
	stateDir, fallback string
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var opts Options
	var flags cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show what changed on the node",
		Long: `Show what changed on the node, oldest first: when, which pod, from which source and
from which manifest file. OWNER and MODE are those of the file when the daemon read it.

The daemon keeps the history in its --state-dir. If no daemon serves the socket, the
command reads ` + defaultStateDir + `. With --state-dir, it reads that directory and does
not connect to a daemon.

An edited static pod has another UID. Its change is a REMOVE and an ADD. A line with the
operation GAP says that changes are missing, and why.

With -o json, the command prints one change per line.`,
		Example: `  # Show the changes of the last ten minutes
  podconfigd history --since 10m

  # Show how the manifest of one pod changed
  podconfigd history --pod kube-system/etcd-node1 --diff

  # Show the changes in a copy of a state directory
  podconfigd history --state-dir ./copy -o json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var c *client.Client
			if opts.stateDir == "" {
				var err error
				if c, err = flags.Client(); err != nil {
					return err
				}
				if flags.Local() {
					opts.fallback = defaultStateDir
				}
			}
			return opts.Run(cmd.Context(), c, cli.Streams(cmd))
		},
	}
	flags.AddTo(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.Since, "since", "", "Show changes since a time, for example 2026-01-02T15:04:05Z, or since a period before now, for example 10m. If empty, shows all.")
	f.StringVar(&opts.Pod, "pod", "", "Select the changes of one pod, as NAMESPACE/NAME.")
	f.StringVar(&opts.Source, "source", "", "Select the changes by one source. One of: file, http, api, file:NAME, http:NAME.")
	flags.CompleteSource(cmd)
	f.BoolVar(&opts.Pods, "diff", false, "Show the difference of the manifests for each change. With -o, each change has the pod before and after it.")
	f.StringVar(&opts.stateDir, "state-dir", "", "State directory to read without connecting to a daemon.")
	f.StringVarP(&opts.output, "output", "o", "", "Output format. One of: json, yaml. If empty, prints a table.")
	return cmd
}

// Run prints the changes. Without a client, it reads the state directory.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	if err := cli.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	records, err := o.records(ctx, c, streams.ErrOut)
	if err != nil {
		return err
	}
	return printHistory(newHistoryPrinter(o.output, o.Pods, streams.Out), records, streams.ErrOut)
}

// records returns the selected changes.
func (o *Options) records(ctx context.Context, c *client.Client, notes io.Writer) (iter.Seq2[*v1alpha1.HistoryRecord, error], error) {
	selection, err := o.selection(time.Now())
	if err != nil {
		return nil, err
	}
	if o.stateDir != "" {
		if exists, err := history.Exists(o.stateDir); err == nil && !exists {
			return nil, fmt.Errorf("reading the history in %s: there is no journal: is this the --state-dir of podconfigd?", o.stateDir)
		}
		return fromDirectory(o.stateDir, selection), nil // it has the error of a directory that can't be read
	}
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		for record, err := range c.History(ctx, o.HistoryOptions) {
			if o.fallback == "" || !notRunning(err) {
				if !yield(record, err) {
					return
				}
				continue
			}
			if _, missing := os.Stat(o.fallback); missing != nil {
				yield(nil, fmt.Errorf("%w; to read the history without a daemon, set --state-dir", err))
				return
			}
			fmt.Fprintf(notes, "podconfigd: %v; reading %s\n", err, o.fallback)
			fromDirectory(o.fallback, selection)(yield)
			return
		}
	}, nil
}

// selection converts the flags. Its error names every invalid one.
func (o *Options) selection(now time.Time) (selection history.Options, err error) {
	selection.Pods = o.Pods
	var errs []error
	fail := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	selection.Since, err = history.ParseSince(o.Since, now)
	fail("--since", err)
	selection.Pod, err = history.ParsePod(o.Pod)
	fail("--pod", err)
	selection.Source, err = config.ParseSource(o.Source)
	fail("--source", err)
	return selection, errors.Join(errs...)
}

// notRunning reports whether the error of a connection means that no daemon runs.
func notRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// fromDirectory reads a state directory. Its error has a likely cause.
func fromDirectory(dir string, selection history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		for record, err := range history.Read(dir, selection) {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				err = fmt.Errorf("%w: is this the --state-dir of podconfigd?", err)
			case errors.Is(err, fs.ErrPermission):
				err = fmt.Errorf("%w: only the user of the daemon and root can read it", err)
			}
			if !yield(record, err) {
				return
			}
		}
	}
}
