// Package get has the command get, which lists and watches pods and containers.
package get

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/objectprint"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Options are the flags of get pods.
type Options struct {
	listFlags
	mirrorPods, showLabels, managed, devices, ignoreNotFound bool
	labelColumns                                             []string
	// args are the arguments, and names what they stand for.
	args  []string
	names []wanted
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "Display resources of the daemon"}
	cmd.AddCommand(newPodsCommand(), newContainersCommand())
	return cmd
}

func newPodsCommand() *cobra.Command {
	var flags cli.ClientFlags
	var o Options
	pods := &cobra.Command{
		Use:     "pods [NAME…]",
		Aliases: []string{"pod", "po"},
		Short:   "List the pods that belong on the node",
		Long: `List the pods that belong on the node.

The list has the pods of all namespaces. Use --namespace to select one namespace.
Pass one or more names to select pods by name. A NAME can be NAMESPACE/NAME. That of a static pod
can be the name in its manifest, without the name of the node. An exact name wins.

The flags and the output formats are those of kubectl get, but for go-template, custom-columns
and --sort-by: for these, run "podconfigctl proxy" and kubectl. The table has the columns of kubectl, and
the source of each pod, and with -o wide the top of its owners, if the daemon finds them. The age of a static pod begins when its source first delivered it. Two sources can
have a pod of the same name: the list has both. It does not wait for sources that have not delivered their
pods yet, but the command names them.

With --watch, the command prints the pods, and then each pod that changes, also across restarts
of the daemon. As in the Kubernetes API, there is then one pod for each name. A removed pod is
printed too: use --output-watch-events to distinguish it. With -o wide, the owner is the one
that is known when the line is printed: a change of the owner alone prints nothing.`,
		Example: `  # List all pods
  podconfigctl get pods

  # List the pods of one namespace as JSON
  podconfigctl get pods -n kube-system -o json

  # List one pod with its UID and images
  podconfigctl get pods web-node1 -o wide

  # List the pods with their devices
  podconfigctl get pods --devices

  # List the images of the pods with a label
  podconfigctl get pods -l app=web -o jsonpath='{.items[*].spec.containers[*].image}'

  # Print each change of the pods
  podconfigctl get pods --watch --output-watch-events`,
		RunE: flags.RunE(func(_ *cobra.Command, names []string) error {
			o.args = names
			o.takeAll()
			_, err := o.check()
			return err
		}, o.Run),
	}
	flags.AddTo(pods)
	f := pods.Flags()
	f.StringVarP(&o.output, "output", "o", "", "Output format. One of: wide, "+strings.Join(objectprint.Formats, ", ")+". A format that ends in = has a template, or the path of a file with one. If empty, prints a table.")
	o.addTo(f, "pod")
	f.BoolVar(&o.mirrorPods, "mirror-pods", true, "Include mirror pods, which a kubelet creates in the apiserver for its static pods.")
	f.StringVar(&o.fieldSelector, "field-selector", "", "Select pods by field, for example status.phase=Running.")
	f.BoolVar(&o.showLabels, "show-labels", false, "Add the labels as the last column of the table.")
	f.StringSliceVarP(&o.labelColumns, "label-columns", "L", nil, "Comma-separated list of labels to add as columns of the table.")
	f.BoolVar(&o.managed, "show-managed-fields", false, "Keep managedFields in JSON and YAML. Requires --keep-managed-fields of the daemon.")
	f.BoolVar(&o.devices, "devices", false, "Add the devices that the kubelet assigned to the containers of each pod, as a column, or in JSON and YAML as resources beside metadata. Requires --pod-resources-socket of the daemon.")
	f.BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "If a pod of a NAME does not exist, do not fail.")
	flags.CompletePods(pods, 0)
	command.CompleteFlag(pods, "output", append([]string{"wide"}, objectprint.Formats...)...)
	pods.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "sort-by" {
			return errors.New(err.Error() + "; podconfigd does not sort: " + useKubectl)
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	return pods
}

// Run prints the pods.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	selects, err := o.check()
	if err != nil {
		return err
	}
	owners, err := findsOwners(ctx, c, o.ownedBy, o.output == "wide")
	if err != nil {
		return err
	}
	out := streams.Out
	table := o.output == "" || o.output == "wide"
	var printer printers.ResourcePrinter
	if table {
		p := podPrinter{devices: o.devices, delegate: printers.NewTablePrinter(printers.PrintOptions{
			NoHeaders: o.noHeaders, WithNamespace: o.namespace == "", Wide: o.output == "wide", ShowLabels: o.showLabels, ColumnLabels: o.labelColumns,
		})}
		if owners && o.output == "wide" {
			p.owner = func(pod *v1.Pod) string { return ownerOf(ctx, c, pod) }
		}
		printer = p
	} else if printer, err = objectprint.New(o.output, objectprint.Options{ShowManagedFields: o.managed, Terminal: cli.IsTerminal(out)}); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if o.devices {
		noteDevices(ctx, c, streams.ErrOut)
		printer = devicePrinter{printer, func(uid types.UID) ([]v1alpha1.ContainerResources, error) { return resourcesOf(ctx, c, uid) }}
	}
	if o.watch || o.watchOnly {
		return newPodWatch(o, c, printer, selects, out, streams.ErrOut).run(ctx)
	}
	list, err := listPods(ctx, c, o.ownedBy)
	if err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(pod unstructured.Unstructured) bool { return !selects(&pod) })
	var missing error
	if len(o.names) > 0 {
		list.Items, missing = o.choose(list.Items)
	}
	noteUnseen(ctx, c, streams.ErrOut)
	return o.print(list, missing, printer, table, out, streams.ErrOut)
}

// print prints a list. It returns the error missing, which names the pods that are not found.
func (o *Options) print(list *unstructured.UnstructuredList, missing error, printer printers.ResourcePrinter, table bool, out, notes io.Writer) error {
	switch {
	case len(list.Items) == 0 && len(o.names) > 0:
		return missing
	case len(list.Items) == 0 && table:
		noteNone(notes)
		return nil
	}
	var object runtime.Object = asList(list.Items)
	if len(list.Items) == 1 && len(o.names) == 1 && !table {
		object = &list.Items[0]
	}
	var text bytes.Buffer
	err := printer.PrintObj(object, &text)
	_, failed := text.WriteTo(out)
	return errors.Join(cmp.Or(err, failed), missing)
}

// onlyKubectl are output formats of kubectl that podconfigd does not have.
var onlyKubectl = []string{"go-template", "custom-columns"}

// useKubectl says how to use kubectl instead, for what podconfigd does not have.
const useKubectl = `run "podconfigctl proxy", and kubectl with its address as --server`

// checkFormat returns an error if there is no such format.
func checkFormat(format string) error {
	name, _, _ := strings.Cut(format, "=")
	known := func(f string) bool { return strings.TrimSuffix(f, "=") == name }
	switch {
	case slices.Contains(onlyKubectl, strings.TrimSuffix(name, "-file")):
		return fmt.Errorf("--output: podconfigd has no %s: %s", name, useKubectl)
	case format == "" || format == "wide" || slices.ContainsFunc(objectprint.Formats, known):
		return nil
	}
	return command.CheckOutput(format, append([]string{"wide"}, objectprint.Formats...)...)
}

// check validates the flags. It returns the condition that selects pods.
func (o *Options) check() (selects func(*unstructured.Unstructured) bool, err error) {
	if err := checkFormat(o.output); err != nil {
		return nil, err
	}
	if len(o.args) > 0 && (o.selector != "" || o.fieldSelector != "" || o.ownedBy != "") {
		return nil, errors.New("NAME and a selector are both given: leave out one of them")
	}
	o.names = nil
	for _, arg := range o.args {
		name, err := podname.Parse(arg, o.namespace)
		if err != nil {
			return nil, err
		}
		o.names = append(o.names, wanted{Name: name})
	}
	if _, err := podfields.ParseOwner(o.ownedBy); err != nil {
		return nil, fmt.Errorf("--owner: %w", err)
	}
	byLabel, err := labels.Parse(o.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	byField, err := podfields.ParseAPISelector(o.fieldSelector)
	if err != nil {
		return nil, fmt.Errorf("--field-selector: %w", err)
	}
	return func(object *unstructured.Unstructured) bool {
		_, mirror := object.GetAnnotations()[v1.MirrorPodAnnotationKey]
		switch {
		case mirror && !o.mirrorPods,
			o.namespace != "" && object.GetNamespace() != o.namespace,
			len(o.names) > 0 && !slices.ContainsFunc(o.names, func(w wanted) bool { return w.fits(object) }):
			return false
		case byLabel.Empty() && byField.Empty():
			return true
		}
		pod, err := podOf(object)
		return err == nil && byLabel.Matches(labels.Set(pod.Labels)) && byField.Matches(podfields.Of(pod))
	}, nil
}
