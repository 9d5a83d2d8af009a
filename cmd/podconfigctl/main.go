// Command podconfigctl reads and controls podconfigd, and checks its manifests and its configuration.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/export"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/get"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/history"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/lookup"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/proxy"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/release"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/resync"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/status"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/top"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/validate"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/watch"
	"github.com/podconfigd/podconfigd/internal/command"
)

func main() { os.Exit(command.Main(newRootCommand())) }

// newRootCommand returns the command with its subcommands.
func newRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podconfigctl",
		Short: "Read and control podconfigd",
		Long: `podconfigctl connects to podconfigd, which decides which pods belong on a node. It reads the pods and
every change, and it controls the daemon.

It connects to the daemon of this machine, or with --server and credentials to that of another one.`,
		Example: `  # Print the pods of the node, then every change
  podconfigctl watch

  # Show what the daemon has, and what is wrong
  podconfigctl status

  # Print the changes of a daemon on another machine
  podconfigctl watch --server https://node1:10250 --certificate-authority ca.crt --token-file token`,
	}
	cmd.AddCommand(watch.NewCommand(), get.NewCommand(), status.NewCommand(), top.NewCommand(), history.NewCommand(), lookup.NewCommand(),
		export.NewCommand(), resync.NewCommand(), release.NewCommand(), proxy.NewCommand(), validate.NewCommand())
	cmd.AddCommand(configCommands()...)
	command.SetUp(cmd)
	return cmd
}
