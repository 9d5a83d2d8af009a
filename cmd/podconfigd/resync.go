package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newResyncCommand() *cobra.Command {
	var flags clientFlags
	cmd := &cobra.Command{
		Use:   "resync NAMESPACE/NAME",
		Short: "Send a SYNC for one pod to its subscribers",
		Long: `Send a SYNC for one pod to its subscribers.

The SYNC has the pod unchanged. Only subscribers that request the SYNC operation get it.
The command does not wait for the next periodic SYNC (--sync-frequency of the daemon).
Repeated requests for the same pod are refused for a time that grows with each request.`,
		Example: `  # Send a SYNC for the pod etcd-node1
  podconfigd resync kube-system/etcd-node1`,
		Args: someArgs("NAMESPACE/NAME", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(args[0], "/")
			if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("%q is not a pod: expected NAMESPACE/NAME", args[0])
			}
			c, err := flags.client(cmd)
			if err != nil {
				return err
			}
			if err := c.Resync(cmd.Context(), namespace, name); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "pod/%s resynced\n", name)
			return err
		},
	}
	flags.add(cmd)
	return cmd
}
