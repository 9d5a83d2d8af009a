// Package watch has the command watch, which prints the stream.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Options are the flags of watch.
type Options struct {
	cli.Selection
	cli.PodFlags
	output string
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:        "watch [POD]",
		SuggestFor: []string{"follow", "stream", "tail"},
		Short:      "Print the stream of updates",
		Long: `Print the stream of updates: first the current pods, then each change.

With POD, print only its updates. POD is NAME or NAMESPACE/NAME of a pod that the daemon has. The
name of a static pod can be that in its manifest, without the name of the node. An exact name wins.

When the connection to the daemon breaks, watch reconnects and resumes the stream.

With -o json, the command prints one update per line, in the format of the socket.
Updates that the daemon splits into frames are printed whole.`,
		Example: `  # Print the current pods, then every change
  podconfigctl watch

  # Print the changes of one pod
  podconfigctl watch web

  # Print the names of changed pods in one namespace
  podconfigctl watch -n kube-system -o name

  # Print the addresses of pods, and each change of one, as JSON
  podconfigctl watch --fields status.podIPs -o json

  # Print the full set of pods after each change, as JSON
  podconfigctl watch --mode snapshot -o json`,
		Args: command.AtMostOneArg("POD"),
		RunE: flags.RunE(func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.Pod = args[0]
			}
			return opts.check()
		}, opts.Run),
	}
	flags.AddTo(cmd)
	f := cmd.Flags()
	f.StringVarP(&opts.output, "output", "o", "", "Output format. One of: json, yaml, name. If empty, prints a table.")
	f.StringVar((*string)(&opts.Mode), "mode", "", "Mode of the stream. One of: incremental, snapshot-and-updates, snapshot. If empty, incremental.")
	opts.Selection.AddTo(cmd, &flags, "ADD, UPDATE, REMOVE and DELETE, with RECONCILE in the incremental mode and SET in the other modes", "print")
	f.BoolVar(&opts.Owners, "owners", false, "Print the owners of pods, with -o json or yaml. Requires --owners of the daemon.")
	f.BoolVar(&opts.NamespaceLabels, "namespace-labels", false, "Print the labels and annotations of the namespaces of the pods, with -o json or yaml.")
	f.BoolVar(&opts.NodeLabels, "node-labels", false, "Print the labels and annotations of the node, with -o json or yaml.")
	flags.CompletePods(cmd, 1)
	command.CompleteFlag(cmd, "output", "json", "yaml", "name")
	command.CompleteFlag(cmd, "mode", string(v1alpha1.ModeIncremental), string(v1alpha1.ModeSnapshotAndUpdates), string(v1alpha1.ModeSnapshot))
	f.StringVar(&opts.Instance, "instance", "", "Instance of the --since revision. Requires --since.")
	f.Int64Var(&opts.Since, "since", 0, "Resume after this revision. 0 to 9223372036854775807. If 0, the stream starts with the current pods.")
	return cmd
}

// check returns an error for flags that do not fit together.
func (o *Options) check() error {
	if err := command.CheckOutput(o.output, "json", "yaml", "name"); err != nil {
		return err
	}
	if (o.Owners || o.NamespaceLabels || o.NodeLabels) && o.output != "json" && o.output != "yaml" {
		return errors.New("--owners, --namespace-labels and --node-labels require -o json or -o yaml")
	}
	if o.Since < 0 {
		return fmt.Errorf("--since: %d is not a revision: expected 0 to %d", o.Since, math.MaxInt64)
	}
	if o.Instance != "" && o.Since == 0 {
		return errors.New("--instance requires --since")
	}
	o.Namespace = o.Stream().Namespace // of POD
	if o.Pod == "" {
		return nil
	}
	if o.FieldSelector != "" || o.LabelSelector != "" {
		return errors.New("POD and a selector are both given: leave out one of them")
	}
	_, err := o.Name()
	return err
}

// Run prints the stream until the context is done.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	stream, p := o.Stream(), newPrinter(o.output, streams.Out)
	if o.Pod != "" {
		pod, err := o.Resolve(ctx, c)
		switch {
		case errors.Is(err, podname.ErrNotFound):
			return fmt.Errorf("%w; to wait for a pod, use --field-selector=metadata.name=NAME", err)
		case err != nil:
			return err
		}
		stream.Namespace, stream.FieldSelector = pod.Namespace, "metadata.name="+pod.Name
	}
	stream.OnDisconnect = cli.NoteDisconnects(streams.ErrOut)
	for update, err := range c.Updates(ctx, stream) {
		if err != nil {
			return cli.AsFlags(err)
		}
		if err := p.print(update); err != nil {
			return err
		}
	}
	return nil
}

// printer prints updates.
type printer interface {
	print(u *v1alpha1.Update) error
}

func newPrinter(output string, w io.Writer) printer {
	switch output {
	case "json", "yaml":
		return &objectPrinter{w, output}
	case "name":
		return &namePrinter{w}
	}
	return newTablePrinter(w)
}

// objectPrinter prints each update as an object.
type objectPrinter struct {
	w      io.Writer
	format string
}

func (p *objectPrinter) print(u *v1alpha1.Update) error { return command.PrintLine(p.w, p.format, u) }

// namePrinter prints an operation and a name for each pod.
type namePrinter struct{ w io.Writer }

func (p *namePrinter) print(u *v1alpha1.Update) error {
	for _, pod := range u.Pods {
		if _, err := fmt.Fprintln(p.w, cli.Cell(string(u.Op)+" pod/"+pod.Name)); err != nil {
			return err
		}
	}
	return nil
}
