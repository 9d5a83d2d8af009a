package get

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// ContainerOptions are the flags of get containers.
type ContainerOptions struct {
	listFlags
	sandboxes bool
}

// containerFormats are the output formats of containers.
var containerFormats = []string{"wide", "name", "json", "yaml"}

func newContainersCommand() *cobra.Command {
	var flags cli.ClientFlags
	var o ContainerOptions
	cmd := &cobra.Command{
		Use:     "containers",
		Aliases: []string{"container", "co"},
		Short:   "List the containers of the container runtime, with their pods",
		Long: `List the containers that the container runtime has, with their pods. The flags select containers by
their pods. It requires --container-runtime-endpoint of the daemon.

The list has the containers of all namespaces, also those that have exited, as long as the runtime has
them. With -o wide, the table has the first process and the cgroup of each container, its ID, the source of its
pod, which an orphan does not have, and the top of the owners of its pod, if the daemon finds them. JSON and
YAML have the fields of /v1alpha1/containers.

With --watch, the command prints the containers, and then each container that changes, also across
restarts of the daemon. A removed container is printed too, as it was at last: use --output-watch-events
to distinguish it.`,
		Example: `  # List all containers
  podconfigctl get containers

  # List the containers of one pod with their processes and cgroups
  podconfigctl get containers --field-selector metadata.name=web-node1 -o wide

  # Print each change of the containers of one namespace
  podconfigctl get containers -n kube-system --watch --output-watch-events`,
		Args: command.NoArgs,
		RunE: flags.RunE(func(*cobra.Command, []string) error {
			o.takeAll()
			return command.CheckOutput(o.output, containerFormats...)
		}, o.Run),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.AddTo(cmd)
	f := cmd.Flags()
	o.addTo(f, "container")
	f.StringVarP(&o.output, "output", "o", "", "Output format. One of: wide, name, json, yaml. If empty, prints a table.")
	f.StringVar(&o.fieldSelector, "field-selector", "", "Select pods by field: metadata.name, metadata.namespace or metadata.uid. For example metadata.name=web-node1.")
	f.BoolVar(&o.sandboxes, "sandboxes", false, "Include the sandboxes of the pods.")
	flags.CompleteNamespace(cmd)
	command.CompleteFlag(cmd, "output", containerFormats...)
	return cmd
}

// Run prints the containers.
func (o *ContainerOptions) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	object := o.output == "json" || o.output == "yaml"
	owners, err := findsOwners(ctx, c, o.ownedBy, object || o.output == "wide")
	if err != nil {
		return err
	}
	query := client.ContainerOptions{
		Namespace: o.namespace, LabelSelector: o.selector, FieldSelector: o.fieldSelector, Owner: o.ownedBy, Labels: object, Owners: owners,
	}
	list, err := c.ListContainers(ctx, query)
	if err != nil {
		return cli.AsFlags(err)
	}
	p := newContainerPrinter(o, owners, streams.Out)
	if o.watch || o.watchOnly {
		w := containerWatch{opts: o, containerPrinter: p, known: make(map[string]*v1alpha1.PodContainer)}
		query.OnDisconnect = cli.NoteDisconnects(streams.ErrOut)
		return w.run(ctx, c, query, list)
	}
	list.Containers = o.listed(list.Containers)
	switch {
	case object:
		return command.PrintObject(streams.Out, o.output, list)
	case len(list.Containers) == 0 && o.output != "name":
		noteNone(streams.ErrOut)
		return nil
	}
	events := make([]containerEvent, len(list.Containers))
	for i := range events {
		events[i].Object = &list.Containers[i]
	}
	return p.print(events...)
}

// listed returns the containers of a list that are to be printed, in the order of their pods.
func (o *ContainerOptions) listed(all []v1alpha1.PodContainer) []v1alpha1.PodContainer {
	all = slices.DeleteFunc(all, func(c v1alpha1.PodContainer) bool { return c.Sandbox && !o.sandboxes })
	slices.SortStableFunc(all, func(a, b v1alpha1.PodContainer) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Restarts, b.Restarts))
	})
	return all
}
