package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

func newWatchCommand() *cobra.Command {
	var flags clientFlags
	var opts client.Options
	var output string
	var mirrorPods bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show the stream of updates as it comes",
		Long: `Show the stream of updates as it comes: first the present pods, then each change.
When the daemon goes away, watch waits for it and goes on where it was.

With -o json each update is a line as the socket has it, but for those that the
daemon split for their size, which are whole again.`,
		Example: `  podconfigd watch
  podconfigd watch -n kube-system -o name
  podconfigd watch --mode snapshot -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "json", "yaml", "name"); err != nil {
				return err
			}
			if opts.Instance != "" && opts.Since == 0 {
				return errors.New("--instance means nothing without --since")
			}
			c, err := flags.client()
			if err != nil {
				return err
			}
			opts.NoMirrorPods = !mirrorPods
			var last string
			opts.OnDisconnect = func(err error, _ time.Duration) {
				if err.Error() != last { // and not at each attempt
					last = err.Error()
					fmt.Fprintf(cmd.ErrOrStderr(), "podconfigd: %v; trying until it is back\n", err)
				}
			}
			return watch(cmd.Context(), c, opts, newPrinter(output, cmd.OutOrStdout()))
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "json, yaml or name; a table if empty")
	f.StringVar(&opts.Mode, "mode", "", "incremental, snapshot-and-updates or snapshot; incremental if empty")
	f.StringVar(&opts.Ops, "ops", "", "operations wanted, with commas between; * is all; those of the config if empty")
	f.StringVar(&opts.Source, "source", "", "only pods of this source: file, http or api")
	f.StringVarP(&opts.Namespace, "namespace", "n", "", "only pods of this namespace")
	f.StringVarP(&opts.LabelSelector, "selector", "l", "", "only pods whose labels match")
	f.StringVar(&opts.FieldSelector, "field-selector", "", "only pods whose fields match")
	f.BoolVar(&mirrorPods, "mirror-pods", true, "also the pods by which a kubelet shows static pods to the apiserver")
	f.StringVar(&opts.Instance, "instance", "", "with --since: the instance that the revision is of")
	f.Int64Var(&opts.Since, "since", 0, "resume after this revision, rather than begin with the present pods")
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
		return &jsonPrinter{json.NewEncoder(w)}
	case "yaml":
		return &yamlPrinter{w}
	case "name":
		return &namePrinter{w}
	}
	return newTablePrinter(w)
}

type jsonPrinter struct{ encoder *json.Encoder }

func (p *jsonPrinter) print(u *v1alpha1.Update) error { return p.encoder.Encode(u) }

type yamlPrinter struct{ w io.Writer }

func (p *yamlPrinter) print(u *v1alpha1.Update) error {
	data, err := yaml.Marshal(u)
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
		if _, err := fmt.Fprintf(p.w, "%s pod/%s\n", u.Op, pod.Name); err != nil {
			return err
		}
	}
	return nil
}
