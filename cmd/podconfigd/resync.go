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
		Short: "Have a pod offered again to those who follow the stream and ask for SYNC",
		Long: `Have a pod offered again, unchanged, to those who follow the stream and ask for SYNC,
without waiting for its turn (--sync-frequency). Who asks for the same pod again and
again is made to wait, longer each time.`,
		Example: "  podconfigd resync kube-system/etcd-node1",
		Args:    someArgs("NAMESPACE/NAME", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(args[0], "/")
			if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("%q is not a pod: want NAMESPACE/NAME", args[0])
			}
			c, err := flags.client()
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
