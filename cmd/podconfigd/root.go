package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/command"
)

// newRootCommand returns the command of the daemon with its subcommands.
func newRootCommand() *cobra.Command {
	cmd := newDaemonCommand()
	cmd.AddCommand(newPrepareCommand())
	cmd.AddCommand(movedCommands()...)
	command.SetUp(cmd)
	return cmd
}

// moved are the commands of podconfigctl that podconfigd had.
var moved = []string{"config", "get", "history", "lookup", "proxy", "release", "resync", "status", "top", "validate", "watch"}

// movedCommands returns commands that name the new ones.
func movedCommands() (commands []*cobra.Command) {
	for _, name := range moved {
		say := func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "podconfigd: %s is a command of podconfigctl: use %q\n", name, "podconfigctl "+name)
		}
		c := &cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				say(cmd, args)
				return &command.ExitError{Code: exitMoved}
			},
		}
		c.SetHelpFunc(say)
		commands = append(commands, c)
	}
	return commands
}

// exitMoved is the exit code of a command that podconfigd no longer has.
const exitMoved = 2
