// Package resync has the command resync, which sends a SYNC for a pod.
package resync

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Options are the pod of resync.
type Options struct{ cli.PodFlags }

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:   "resync POD",
		Short: "Send a SYNC for one pod to its subscribers",
		Long: `Send a SYNC for one pod to its subscribers.

The SYNC has the pod unchanged. Only subscribers that request the SYNC operation get it.
The command does not wait for the next periodic SYNC (--sync-frequency of the daemon).
Repeated requests for the same pod are refused for a time that grows with each request.

POD is NAME or NAMESPACE/NAME. The name of a static pod can be that in its manifest,
without the name of the node. An exact name wins.`,
		Example: `  # Send a SYNC for the pod etcd-node1
  podconfigctl resync kube-system/etcd-node1`,
		Args: command.SomeArgs("POD", 1),
		RunE: flags.RunE(func(_ *cobra.Command, args []string) error {
			opts.Pod = args[0]
			_, err := opts.Name()
			return err
		}, opts.Run),
	}
	flags.AddTo(cmd)
	opts.AddTo(cmd)
	flags.CompletePods(cmd, 1)
	return cmd
}

// Run asks the daemon to send the SYNC.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	pod, err := o.Resolve(ctx, c)
	if err != nil {
		return err
	}
	if err := c.Resync(ctx, pod.Namespace, pod.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "pod/%s resynced\n", pod.Name)
	return err
}
