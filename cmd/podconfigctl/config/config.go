// Package config has the commands config check and config print.
package config

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/configfile"
)

// NewCommand returns the command with its subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration of the daemon",
	}
	cmd.AddCommand(newPrintCommand(), newCheckCommand())
	return cmd
}

func newPrintCommand() *cobra.Command {
	opts := configfile.NewOptions()
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration from files and flags, and where each value comes from",
		Long: `Print the configuration that the daemon has with these flags. No daemon needs to run.

The output is a configuration file. A comment at each value names the flag, or the file
and the line, that it comes from. The values of HTTP headers, and users and queries of
URLs, are replaced by REDACTED.`,
		Example: `  # Print the configuration of a file and a flag
  podconfigctl config print --config /etc/podconfigd/podconfigd.yaml --state-dir /var/lib/podconfigd`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := opts.Check(cmd.Flags())
			if err != nil {
				return err
			}
			return loaded.Print(cmd.OutOrStdout())
		},
	}
	opts.AddTo(cmd.Flags())
	command.CompleteOptions(cmd)
	return cmd
}

func newCheckCommand() *cobra.Command {
	opts := configfile.NewOptions()
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration from files and flags",
		Long: `Check the configuration that the daemon has with these flags. No daemon needs to run.

The command prints every fault with file, line and field, or with the flag. The exit code
is 1 if there is a fault. The command does not look at the machine. Only the daemon checks,
when it starts, the files, directories and groups that the configuration names.`,
		Example: `  # Check a file and its drop-ins
  podconfigctl config check --config /etc/podconfigd/podconfigd.yaml --config-dir /etc/podconfigd/podconfigd.d`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := opts.Check(cmd.Flags())
			if err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				return command.ErrSilent
			}
			for _, path := range loaded.Files() {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), path+": ok"); err != nil {
					return err
				}
			}
			return nil
		},
	}
	opts.AddTo(cmd.Flags())
	command.CompleteOptions(cmd)
	return cmd
}
