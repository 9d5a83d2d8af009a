// Package lookup has the command lookup, which shows what a process, an ID or an IP belongs to.
package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// maxWait is the maximum wait of a lookup.
const maxWait = time.Minute

// Options are the flags of lookup.
type Options struct {
	output       string
	by, at       string
	wait         time.Duration
	namespace    bool // --namespace-labels
	node         bool // --node-labels
	cli.PodFlags      // the argument, which may be another one than a pod
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:   "lookup PID|CONTAINER-ID|IP|UID|CGROUP|POD",
		Short: "Show which pod and container a process, an ID or an IP belongs to",
		Long: `Show which pod and container a process, a container ID, an IP, a pod UID, a cgroup, a
namespace or a log belongs to.

The form of the argument decides: a number is a process in the PID namespace of the daemon,
a path is a cgroup, and so on. Use --by if the form is ambiguous. A container ID can be
shortened if the container is in the runtime, as crictl prints it.

What the kernel knows a container by has its kind in front: cgroup:ID, and netns:INODE,
mntns:INODE, pidns:INODE and cgroupns:INODE, as in /proc/PID/ns. The log of a container is
log:PATH, with a path below /var/log/pods or /var/log/containers. A device that the kubelet assigned
to a container is device:RESOURCE:ID, or device:DRIVER:POOL/DEVICE if it is of a claim. "self" is
the command itself, if it runs in a container.

An argument that is none of these can also be a pod, as NAME or NAMESPACE/NAME. The name of a
static pod can be that in its manifest, without the name of the node. An exact name wins.

Containers and pods that ended are known for an hour, or what --ended-pods-retention of the daemon says.
Then STATE has when they ended. --at shows which pod had an IP or a process at a time.`,
		Example: `  # Show the pod of a process
  podconfigctl lookup 4711

  # Show the pod of a container, and wait for it if it is about to start
  podconfigctl lookup --wait 2s containerd://3f5a0c2d9b1e

  # Show the pod of a network namespace, and that of a log
  podconfigctl lookup netns:4026532567
  podconfigctl lookup log:/var/log/pods/default_web_2d45a1/app/0.log

  # Show which container has a GPU
  podconfigctl lookup device:nvidia.com/gpu:GPU-3f5a0c2d

  # Show the pod that had an IP ten minutes ago
  podconfigctl lookup --at=-10m 10.0.3.7

  # Show all pods on the network of the host, as JSON
  podconfigctl lookup -o json 192.168.0.10`,
		Args: command.SomeArgs("PID, CONTAINER-ID, IP, UID, CGROUP or POD", 1),
		RunE: flags.RunE(func(_ *cobra.Command, args []string) error {
			opts.Pod = args[0]
			_, err := opts.query()
			return err
		}, opts.Run),
	}
	flags.AddTo(cmd)
	opts.AddTo(cmd)
	cmd.Flags().StringVarP(&opts.output, "output", "o", "", "Output format. One of: json, yaml, name, wide. If empty, prints a table.")
	cmd.Flags().StringVar(&opts.by, "by", "", "Meaning of the argument. One of: pid, container, ip, uid, cgroup, pod. If empty, its form decides.")
	flags.CompletePods(cmd, 1)
	command.CompleteFlag(cmd, "output", "json", "yaml", "name", "wide")
	command.CompleteFlag(cmd, "by", "pid", "container", "ip", "uid", "cgroup", "pod")
	cmd.Flags().StringVar(&opts.at, "at", "", "Time at which the pod had the IP or the process: a period before now, as in -10m, or a time, as in 2026-01-02T15:04:05Z. If empty, now.")
	cmd.Flags().BoolVar(&opts.namespace, "namespace-labels", false, "Print the labels and annotations of the pod's namespace, with -o json or yaml.")
	cmd.Flags().BoolVar(&opts.node, "node-labels", false, "Print the labels and annotations of the node, with -o json or yaml.")
	cmd.Flags().DurationVar(&opts.wait, "wait", 0, "Time to wait until the container and its pod are known. 0s to 1m.")
	return cmd
}

// query checks the flags, and returns the query.
func (o *Options) query() (client.LookupQuery, error) {
	if err := command.CheckOutput(o.output, "json", "yaml", "name", "wide"); err != nil {
		return client.LookupQuery{}, err
	}
	if (o.namespace || o.node) && o.output != "json" && o.output != "yaml" {
		return client.LookupQuery{}, errors.New("--namespace-labels and --node-labels require -o json or -o yaml")
	}
	query, err := lookupQuery(o.by, o.Pod)
	if err != nil {
		return client.LookupQuery{}, err
	}
	if query.Wait = o.wait; o.wait < 0 || o.wait > maxWait {
		return client.LookupQuery{}, fmt.Errorf("--wait: %v is not a wait: expected 0s to 1m", o.wait)
	}
	if query.At = o.at; o.at != "" && query.PodIP == "" && query.PID == 0 {
		return client.LookupQuery{}, fmt.Errorf("--at: %q is neither an IP nor a PID: expected one, because only these are looked up at a time", o.Pod)
	}
	return query, nil
}

// Run prints the pods of the subject.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	query, err := o.query()
	if err != nil {
		return err
	}
	pod, err := o.isPod(ctx, c)
	noPod := errors.Is(err, podname.ErrNotFound) && o.by == "" && o.Namespace == ""
	if err != nil && !noPod {
		return err
	}
	if pod != nil {
		query = client.LookupQuery{PodUID: string(pod.UID), Wait: o.wait}
		if o.by == "" {
			fmt.Fprintf(streams.ErrOut, "podconfigctl: %s is the name of the pod %s/%s\n", cli.Cell(o.Pod), pod.Namespace, pod.Name)
		}
	}
	query.NamespaceLabels, query.NodeLabels = o.namespace, o.node
	found, err := lookUp(ctx, c, query)
	if err != nil && noPod {
		return fmt.Errorf("%w; no pod has this name either", err)
	}
	if err != nil {
		return err
	}
	return printLookup(streams.Out, o.output, found)
}

// notPod matches what can't be the name of a pod: a cgroup, an ID with its runtime, and an ID or the start of one.
var notPod = regexp.MustCompile(`^/|://|/.*/|^[0-9a-f]+$`)

// isPod returns the pod that the argument names, or nil if it is something else. If it may be the name of a pod, and no pod
// has it, the error is podname.ErrNotFound.
func (o *Options) isPod(ctx context.Context, c *client.Client) (*v1.Pod, error) {
	if o.by == "pod" {
		return o.Find(ctx, c)
	}
	if _, handle, _ := handleQuery(o.Pod); handle && o.by == "" {
		return nil, nil //nolint:nilnil // it is not a pod
	}
	if form := formOf(o.Pod); o.by != "" || form != "container" && form != "cgroup" || notPod.MatchString(o.Pod) {
		return nil, nil //nolint:nilnil // it is not a pod
	}
	pod, err := o.Find(ctx, c)
	if _, refused := errors.AsType[*client.RefusedError](err); refused {
		return nil, nil //nolint:nilnil // it is not a pod
	}
	return pod, err
}

// uid matches the UIDs of the apiserver, and those of static pods.
var uid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$|^[0-9a-f]{32}$`)

// lookupQuery returns the query for an argument.
func lookupQuery(by, arg string) (client.LookupQuery, error) {
	if strings.TrimSpace(arg) == "" {
		return client.LookupQuery{}, errors.New("the argument is empty: expected PID, CONTAINER-ID, IP, UID, CGROUP or POD; see \"podconfigctl lookup --help\"")
	}
	if query, ok, err := handleQuery(arg); ok && by == "" {
		return query, err
	}
	switch cmp.Or(by, formOf(arg)) {
	case "pid":
		pid, err := strconv.Atoi(arg)
		if err != nil || pid < 1 || pid > math.MaxInt32 {
			return client.LookupQuery{}, fmt.Errorf("%q is not a PID: expected 1 to %d", arg, math.MaxInt32)
		}
		return client.LookupQuery{PID: pid}, nil
	case "pod":
		return client.LookupQuery{}, nil // its UID follows
	case "container":
		return client.LookupQuery{ContainerID: arg}, nil
	case "ip":
		return client.LookupQuery{PodIP: arg}, nil
	case "uid":
		return client.LookupQuery{PodUID: arg}, nil
	case "cgroup":
		return client.LookupQuery{Cgroup: arg}, nil
	}
	return client.LookupQuery{}, fmt.Errorf("--by: unknown value %q: expected one of pid, container, ip, uid, cgroup, pod", by)
}

// formOf returns what an argument is by its form.
func formOf(arg string) string {
	pid, notPID := strconv.Atoi(arg)
	_, notIP := netip.ParseAddr(arg)
	switch {
	case notPID == nil && pid <= math.MaxInt32:
		return "pid"
	case notIP == nil:
		return "ip"
	case uid.MatchString(arg):
		return "uid"
	case strings.Contains(arg, "/") && !strings.Contains(arg, "://"):
		return "cgroup"
	}
	return "container"
}

// lookUp requests the answer. It completes a shortened container ID.
func lookUp(ctx context.Context, c *client.Client, query client.LookupQuery) (*v1alpha1.Lookup, error) {
	found, err := c.Lookup(ctx, query)
	if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Code != http.StatusNotFound || query.ContainerID == "" {
		return found, err
	}
	id, completed := completeID(ctx, c, query.ContainerID)
	if completed != nil || id == "" {
		return nil, cmp.Or(completed, err)
	}
	query.ContainerID = id
	return c.Lookup(ctx, query)
}

// completeID returns the ID that begins with a shortened one, or "" if no container has it.
func completeID(ctx context.Context, c *client.Client, short string) (id string, err error) {
	if i := strings.Index(short, "://"); i >= 0 {
		short = short[i+len("://"):]
	}
	pods, err := cli.AskRuntime(ctx, c)
	if err != nil {
		return "", err
	}
	for _, p := range pods {
		for _, container := range p.Containers {
			if !strings.HasPrefix(container.ID, short) {
				continue
			}
			if id != "" {
				return "", fmt.Errorf("looking up container %s: several containers begin with it; pass more of the ID", short)
			}
			id = container.ID
		}
	}
	return id, nil
}

func printLookup(w io.Writer, output string, found *v1alpha1.Lookup) error {
	switch output {
	case "json", "yaml":
		return command.PrintObject(w, output, found)
	case "name":
		for i := range found.Pods {
			if _, err := fmt.Fprintln(w, cli.Cell("pod/"+found.Pods[i].Name)); err != nil {
				return err
			}
		}
		return nil
	}
	if found.Host != nil {
		return printHost(w, found.Host)
	}
	header := []string{"NAMESPACE", "POD", "CONTAINER", "STATE", "SOURCE"}
	if output == "wide" {
		header = append(header, "UID", "IP", "CONTAINER-ID")
	}
	owners := output == "wide" && slices.ContainsFunc(found.Pods, func(p v1alpha1.LookupPod) bool { return len(p.Owners) > 0 })
	if owners {
		header = append(header, "OWNER")
	}
	rows := make([][]string, len(found.Pods))
	for i := range found.Pods {
		rows[i] = lookupRow(&found.Pods[i], output == "wide")
		if owners {
			rows[i] = append(rows[i], cli.TopOwner(found.Pods[i].Owners))
		}
	}
	return cli.PrintTable(w, header, rows)
}

func lookupRow(p *v1alpha1.LookupPod, wide bool) []string {
	container, state, id := "<none>", p.Phase, ""
	ended := p.Ended
	if c := p.Container; c != nil {
		id = c.ID
		container, state = cli.Container(c)
		if c.Ended != nil {
			ended = c.Ended
		}
	}
	state = cmp.Or(state, "<unknown>")
	if ended != nil {
		state += ", ended " + cli.Age(ended) + " ago"
	}
	row := []string{p.Namespace, p.Name, container, state, cmp.Or(p.Source, "<none>")}
	if wide {
		row = append(row, p.UID, cmp.Or(strings.Join(p.PodIPs, ","), "<none>"), cmp.Or(id, "<none>"))
	}
	return row
}
