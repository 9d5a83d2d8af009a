// Package history has the command history, which shows what changed on the node.
package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
)

// defaultStateDir is the state directory of the packages.
const defaultStateDir = "/var/lib/podconfigd"

// Options are the flags of history.
type Options struct {
	client.HistoryOptions
	pod    cli.PodFlags
	output string
	follow bool
	// last is the maximum number of changes; 0 for all.
	last int
	// stateDir is read instead of asking the daemon. fallback is read if no daemon runs. It is
	// empty for a daemon of another machine.
	stateDir, fallback string
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var opts Options
	var flags cli.ClientFlags
	cmd := &cobra.Command{
		Use:        "history [POD]",
		SuggestFor: []string{"log", "events"},
		Short:      "Show what changed on the node",
		Long: `Show what changed on the node, oldest first: when, which pod, from which source and
from which manifest file. OWNER and MODE are those of the file when the daemon read it.

With --newest, the newest change is first. The daemon reads only the newest files of its history.

The daemon keeps the history in its --state-dir. If no daemon serves the socket, the
command reads ` + defaultStateDir + `. With --state-dir, it reads that directory and does
not connect to a daemon.

An edited static pod has another UID. The table and --diff show the edit as one ADD, which says
what changed. With -o, it is a REMOVE with replaced: true, and an ADD. A line with the operation
GAP says that changes are missing, and why.

With POD, show only its changes. POD is NAME or NAMESPACE/NAME. The name of a static pod can
be that in its manifest, without the name of the node. An exact name wins.

With -o json, the command prints one change per line.`,
		Example: `  # Show the changes of the last ten minutes
  podconfigctl history --since 10m

  # Show the last changes
  podconfigctl history --last 10

  # Show what changed in an hour
  podconfigctl history --since 2026-01-02T15:00:00Z --until 2026-01-02T16:00:00Z

  # Show how the manifest of one pod changed
  podconfigctl history etcd -n kube-system --diff

  # Show all changes, and each further one
  podconfigctl history -f

  # Show the changes in a copy of a state directory
  podconfigctl history --state-dir ./copy -o json`,
		Args: command.AtMostOneArg("POD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.complete(args); err != nil {
				return err
			}
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
	f.StringVar(&opts.Until, "until", "", "Show changes until a time or until a period before now, in the form of --since. If empty, shows all.")
	f.BoolVar(&opts.Newest, "newest", false, "Show the newest change first.")
	f.IntVar(&opts.last, "last", 0, "Number of changes to show, the last ones: 0 to 2147483647. If 0, shows all.")
	f.StringVar(&opts.pod.Pod, "pod", "", "Select the changes of one pod, as POD.")
	f.StringVarP(&opts.pod.Namespace, "namespace", "n", "", "Select the changes of the pods of one namespace.")
	f.BoolVarP(&opts.follow, "follow", "f", false, "After the history, print each further change.")
	f.StringVar(&opts.Source, "source", "", "Select the changes by one source. One of: file, http, api, file:NAME, http:NAME.")
	flags.CompleteSource(cmd)
	f.StringVar(&opts.Owner, "owner", "", cli.OwnerHelp)
	f.BoolVar(&opts.Pods, "diff", false, "Show the difference of the manifests for each change. With -o, each change has the pod before and after it.")
	f.StringVar(&opts.stateDir, "state-dir", "", "State directory to read without connecting to a daemon.")
	f.StringVarP(&opts.output, "output", "o", "", "Output format. One of: json, yaml. If empty, prints a table.")
	flags.CompletePods(cmd, 1)
	command.CompleteFlag(cmd, "output", "json", "yaml")
	return cmd
}

// complete takes the pod of the arguments, and checks what needs no connection.
func (o *Options) complete(args []string) error {
	if len(args) > 0 && o.pod.Pod != "" {
		return errors.New("POD and --pod are both given: leave out one of them")
	}
	if len(args) > 0 {
		o.pod.Pod = args[0]
	}
	if o.last < 0 || o.last > math.MaxInt32 {
		return fmt.Errorf("--last: %d is out of range: expected 0 to %d", o.last, math.MaxInt32)
	}
	return nil
}

// Run prints the changes. Without a client, it reads the state directory.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	if _, err := o.selection(time.Now()); err != nil {
		return err
	}
	r := &reader{Options: o, client: c, notes: streams.ErrOut}
	if o.stateDir != "" {
		if exists, err := history.Exists(o.stateDir); err == nil && !exists {
			return fmt.Errorf("reading the history in %s: there is no journal: is this the --state-dir of podconfigd?", o.stateDir)
		}
		r.dir = o.stateDir // the read has the error of a directory that can't be read
	}
	p := newHistoryPrinter(o.output, o.Pods, streams.Out)
	if !o.follow {
		newestFirst := o.Newest
		o.Newest = o.Newest || o.last > 0
		return printHistory(p, o.lines(r.records(ctx), newestFirst), streams.ErrOut)
	}
	return r.followHistory(ctx, p)
}

// selection converts all flags except the pod. Its error names every invalid flag.
func (o *Options) selection(now time.Time) (selection history.Options, err error) {
	selection.Pods, selection.Newest = o.Pods, o.Newest
	var errs []error
	fail := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	selection.Since, err = history.ParseSince(o.Since, now)
	fail("--since", err)
	selection.Until, err = history.ParseSince(o.Until, now)
	fail("--until", err)
	if !selection.Until.IsZero() && selection.Since.After(selection.Until) {
		errs = append(errs, errors.New("--since is later than --until"))
	}
	if o.follow && (o.Until != "" || o.Newest || o.last > 0) {
		errs = append(errs, errors.New("--follow can't be used with --until, --newest or --last: use --since"))
	}
	if o.pod.Pod != "" {
		name, err := o.pod.Name()
		if err == nil {
			_, err = history.ParsePod(name.WithNamespace())
		}
		fail("POD", err)
	}
	_, err = podfields.ParseOwner(o.Owner)
	fail("--owner", err)
	if o.Owner != "" && o.stateDir != "" {
		errs = append(errs, errors.New("--owner can't be used with --state-dir: only a running podconfigd knows the owners"))
	}
	selection.Source, err = config.ParseSource(o.Source)
	fail("--source", err)
	return selection, errors.Join(errs...)
}
