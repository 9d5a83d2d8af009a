// Package resync has the command resync, which sends a SYNC for a pod.
package resync

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Options are the pod of resync.
type Options struct{ namespace, name string }

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:   "resync NAMESPACE/NAME",
		Short: "Send a SYNC for one pod to its subscribers",
		Long: `Send a SYNC for one pod to its subscribers.

The SYNC has the pod unchanged. Only subscribers that request the SYNC operation get it.
The command does not wait for the next periodic SYNC (--sync-frequency of the daemon).
Repeated requests for the same pod are refused for a time that grows with each request.`,
		Example: `  # Send a SYNC for the pod etcd-node1
  podconfigd resync kube-system/etcd-node1`,
		Args: cli.SomeArgs("NAMESPACE/NAME", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ok bool
			opts.namespace, opts.name, ok = strings.Cut(args[0], "/")
			if !ok || opts.namespace == "" || opts.name == "" || strings.Contains(opts.name, "/") {
				return fmt.Errorf("%q is not a pod: expected NAMESPACE/NAME", args[0])
			}
			c, err := flags.Client()
			if err != nil {
				return err
			}
			return opts.Run(cmd.Context(), c, cli.Streams(cmd))
		},
	}
	flags.AddTo(cmd)
	return cmd
}

// Run asks the daemon to send the SYNC.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	if err := c.Resync(ctx, o.namespace, o.name); err != nil {
		return err
	}
	_, err := fmt.Fprintf(streams.Out, "pod/%s resynced\n", o.name)
	return err
}
