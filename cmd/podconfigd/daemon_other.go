//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/cli"
)

// newDaemonCommand returns the command that would run the daemon.
func newDaemonCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "podconfigd",
		Short: "Read the pods of a node from podconfigd",
		Long: `podconfigd decides which pods belong on a node, and serves every change as one ordered,
resumable stream.

The daemon, and the commands that check its configuration and manifests, run on Linux only.
The other commands connect to a daemon on another machine, with --server and credentials.`,
		Example: `  # Print the pods of a node, then every change
  podconfigd watch --server https://node1:10250 --certificate-authority ca.crt --token-file token`,
		Args:          cli.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("the daemon runs on Linux only: to read a daemon on another machine, use a command with --server; see \"podconfigd --help\"")
		},
	}
}

// daemonCommands returns the subcommands that have the code of the daemon: none.
func daemonCommands() []*cobra.Command { return nil }
