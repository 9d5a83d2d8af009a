package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/objectyaml"
	"github.com/podconfigd/podconfigd/pkg/client"
)

func newWatchCommand() *cobra.Command {
	var flags clientFlags
	var opts client.Options
	var output, ops string
	var mirrorPods bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print the stream of updates",
		Long: `Print the stream of updates: first the current pods, then each change.

When the connection to the daemon breaks, watch reconnects and resumes the stream.

With -o json, the command prints one update per line, in the format of the socket.
Updates that the daemon splits into frames are printed whole.`,
		Example: `  # Print the current pods, then every change
  podconfigd watch

  # Print the names of changed pods in one namespace
  podconfigd watch -n kube-system -o name

  # Print the addresses of pods, and each change of one, as JSON
  podconfigd watch --fields status.podIPs -o json

  # Print the full set of pods after each change, as JSON
  podconfigd watch --mode snapshot -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "json", "yaml", "name"); err != nil {
				return err
			}
			if opts.Since < 0 {
				return fmt.Errorf("--since: %d is not a revision: expected 0 to %d", opts.Since, math.MaxInt64)
			}
			if opts.Instance != "" && opts.Since == 0 {
				return errors.New("--instance requires --since")
			}
			c, err := flags.client(cmd)
			if err != nil {
				return err
			}
			opts.NoMirrorPods = !mirrorPods
			if ops != "" {
				for op := range strings.SplitSeq(ops, ",") {
					opts.Ops = append(opts.Ops, v1alpha1.Op(op))
				}
			}
			var last string
			opts.OnDisconnect = func(err error, _ time.Duration) {
				if err.Error() != last { // once, not at each attempt
					last = err.Error()
					fmt.Fprintf(cmd.ErrOrStderr(), "podconfigd: %v; reconnecting\n", err)
				}
			}
			return watch(cmd.Context(), c, opts, newPrinter(output, cmd.OutOrStdout()))
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "Output format. One of: json, yaml, name. If empty, prints a table.")
	f.StringVar((*string)(&opts.Mode), "mode", "", "Mode of the stream. One of: incremental, snapshot-and-updates, snapshot. If empty, incremental.")
	f.StringVar(&ops, "ops", "", "Comma-separated list of operations. * selects all. If empty, selects ADD, UPDATE, REMOVE and DELETE, with RECONCILE in the incremental mode and SET in the other modes.")
	f.StringVar(&opts.Source, "source", "", "Select pods of one source. One of: file, http, api, file:NAME, http:NAME.")
	flags.completeSource(cmd)
	f.StringVarP(&opts.Namespace, "namespace", "n", "", "Select pods of one namespace.")
	f.StringVarP(&opts.LabelSelector, "selector", "l", "", "Select pods by label, for example app=web.")
	f.StringVar(&opts.FieldSelector, "field-selector", "", "Select pods by field, for example metadata.name=web-node1.")
	f.StringSliceVar(&opts.Fields, "fields", nil, "Comma-separated list of the fields of pods to print, for example spec.containers.image,status.podIPs. Changes of other fields are not printed. If empty, prints all.")
	f.BoolVar(&mirrorPods, "mirror-pods", true, "Include mirror pods, which a kubelet creates in the apiserver for its static pods.")
	f.StringVar(&opts.Instance, "instance", "", "Instance of the --since revision. Requires --since.")
	f.Int64Var(&opts.Since, "since", 0, "Resume after this revision. 0 to 9223372036854775807. If 0, the stream starts with the current pods.")
	return cmd
}

func watch(ctx context.Context, c *client.Client, opts client.Options, p printer) error {
	for update, err := range c.Updates(ctx, opts) {
		if err != nil {
			return err
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
	case "json":
		return &jsonPrinter{w}
	case "yaml":
		return &yamlPrinter{w}
	case "name":
		return &namePrinter{w}
	}
	return newTablePrinter(w)
}

type jsonPrinter struct{ w io.Writer }

func (p *jsonPrinter) print(u *v1alpha1.Update) error { return printJSON(p.w, u, "") }

type yamlPrinter struct{ w io.Writer }

func (p *yamlPrinter) print(u *v1alpha1.Update) error {
	data, err := objectyaml.Marshal(u)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "---\n%s", data)
	return err
}

// namePrinter prints an operation and a name for each pod.
type namePrinter struct{ w io.Writer }

func (p *namePrinter) print(u *v1alpha1.Update) error {
	for _, pod := range u.Pods {
		if _, err := fmt.Fprintln(p.w, cell(string(u.Op)+" pod/"+pod.Name)); err != nil {
			return err
		}
	}
	return nil
}
