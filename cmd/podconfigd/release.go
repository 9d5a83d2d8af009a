package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
)

func newReleaseCommand() *cobra.Command {
	var flags clientFlags
	removes := 0
	cmd := &cobra.Command{
		Use:   "release SOURCE",
		Short: "Apply the held set of a source, which removes pods",
		Long: `Apply the held set of a source, which removes pods.

With --removal-brake, the daemon holds a set that would remove too many pods of its source.
"podconfigd status" shows how many. SOURCE is file, http, api, file:NAME or http:NAME. The next
set of the source is limited again. A newer set can be held than the one that you looked at:
--removes says how many pods it may remove.`,
		Example: `  # Apply the held set of the manifest directory
  podconfigd release file

  # Apply it only if it still removes at most 12 pods
  podconfigd release file --removes=12`,
		Args: someArgs("SOURCE", 1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return flags.sources(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if removes < 0 || removes > math.MaxInt32 {
				return fmt.Errorf("--removes: %d is out of range: expected 0 to %d", removes, math.MaxInt32)
			}
			c, err := flags.client(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("removes") {
				err = c.ReleaseUpTo(cmd.Context(), args[0], removes)
			} else {
				err = c.Release(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "source/%s released\n", args[0])
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVar(&removes, "removes", 0, "Number of pods that the set may remove: 0 to 2147483647. If the newest held set removes more, it stays held. (default any number)")
	return cmd
}
