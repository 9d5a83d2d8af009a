// Package status has the command status, which shows the status of the daemon, or why a pod does
// not run.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/story"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Options are the flags of status.
type Options struct {
	output string
	color  cli.ColorFlag
	watch  bool
	// PodFlags have the pod or manifest; empty for the daemon.
	cli.PodFlags
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	opts := Options{color: cli.ColorAuto}
	cmd := &cobra.Command{
		Use:        "status [POD|FILE]",
		SuggestFor: []string{"describe", "health"},
		Short:      "Show the status of the daemon, or why a pod does not run",
		Long: `Show the status of the daemon. What is wrong comes first:

- its node, instance and revision
- each source, and what is wrong with it
- the verdict on each manifest
- the container runtime, if the daemon has one
- each subscriber, and its lag in updates

With POD or FILE, show why that pod or manifest does not run, and how to fix it: the
verdict on the manifest with its line, the source, the state of the containers, other
manifests and pods of the same name, and the last changes.

POD is NAME or NAMESPACE/NAME. The name of a static pod can be that in its manifest,
without the name of the node. An exact name wins. FILE is the path of a manifest, or its
name without the directory.

The exit code is 0 if nothing is wrong, 1 if the command fails, and 2 if something is wrong:
a manifest is not accepted, a source is degraded or has not delivered its pods, updates are
not stored, the container runtime does not answer, or mirror pods can't be created. With POD
or FILE, it is 2 if the pod is known not to run. It is 0 if the pod runs or completed, and
also if the daemon has no container runtime.

On a terminal, the output is colored. The environment variables NO_COLOR and TERM=dumb turn
colors off. With --watch, the command prints the status again at each change, until it is
interrupted. On a terminal, it redraws the screen.`,
		Example: `  # Show the status
  podconfigctl status

  # Show why a pod does not run
  podconfigctl status web

  # Show what is wrong with a manifest, as JSON
  podconfigctl status /etc/kubernetes/manifests/web.yaml -o json

  # Watch a pod start
  podconfigctl status kube-system/etcd-node1 --watch`,
		Args: command.AtMostOneArg("POD or FILE"),
		RunE: flags.RunE(func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.Pod = args[0]
			}
			return opts.check()
		}, opts.Run),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return append(manifestNames(&flags), flags.Pods(cmd, word)...), cobra.ShellCompDirectiveDefault
		},
	}
	flags.AddTo(cmd)
	opts.AddTo(cmd)
	cmd.Flags().StringVarP(&opts.output, "output", "o", "", "Output format. One of: json, yaml. If empty, prints text.")
	cmd.Flags().StringVar((*string)(&opts.color), "color", string(cli.ColorAuto), "When to color the text. One of: auto, always, never.")
	cmd.Flags().BoolVarP(&opts.watch, "watch", "w", false, "Print the status again at each change.")
	flags.CompleteNamespace(cmd)
	command.CompleteFlag(cmd, "output", "json", "yaml")
	command.CompleteFlag(cmd, "color", string(cli.ColorAuto), string(cli.ColorAlways), string(cli.ColorNever))
	return cmd
}

// check returns an error for unknown values of flags.
func (o *Options) check() error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	if o.Namespace != "" && o.Pod == "" {
		return errors.New("--namespace requires POD")
	}
	return o.color.Check()
}

// subject returns the argument, with its namespace if it is a pod.
func (o *Options) subject() (string, error) {
	if o.Namespace == "" {
		return o.Pod, nil
	}
	name, err := o.Name()
	return name.String(), err
}

// Run prints the status. It returns command.ErrUnhealthy if something is wrong.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	if o.watch {
		return o.watchStatus(ctx, c, streams.Out, streams.ErrOut)
	}
	r, err := o.ask(ctx, c)
	if err != nil {
		return err
	}
	if err := o.print(streams.Out, r); err != nil {
		return err
	}
	if !r.healthy {
		return command.ErrUnhealthy
	}
	return nil
}

// report is what the command prints.
type report struct {
	object  any
	page    *page
	healthy bool
}

// ask requests the status of the daemon, or the story of the subject.
func (o *Options) ask(ctx context.Context, c *client.Client) (*report, error) {
	subject, err := o.subject()
	if err != nil {
		return nil, err
	}
	if subject == "" {
		status, err := c.Status(ctx)
		if err != nil {
			return nil, err
		}
		return &report{status, overview(status), len(problemsOf(status)) == 0}, nil
	}
	s, err := story.Ask(ctx, c, subject)
	if err != nil {
		return nil, err
	}
	return &report{s, storyPage(s), s.Health == v1alpha1.Healthy || s.Health == v1alpha1.Unknown}, nil
}

func (o *Options) print(out io.Writer, r *report) error {
	if o.output != "" {
		return command.PrintObject(out, o.output, r.object)
	}
	return r.page.write(out, o.color.On(out))
}

// settled returns the report without times and numbers that always change. If the result changes,
// the report is printed again.
func (r *report) settled() (string, error) {
	data, err := json.Marshal(r.object)
	if err != nil {
		return "", err
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return "", err
	}
	forget(object)
	data, err = json.Marshal(object)
	return string(data), err
}

// restless are fields of the status that change although nothing happens.
var restless = map[string]bool{
	"lastSuccess": true, "lastEvent": true, "lastList": true, "relists": true, "watchRestarts": true,
	"lastRelist": true, "relistP50Seconds": true, "relistP99Seconds": true, "received": true, "emitted": true, "relistErrors": true,
	"lag": true, "segments": true, "bytes": true,
}

// forget removes the fields that change all the time.
func forget(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if restless[name] {
				delete(v, name)
			} else {
				forget(field)
			}
		}
	case []any:
		for _, item := range v {
			forget(item)
		}
	}
}
