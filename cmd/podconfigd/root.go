package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/internal/logsink"
)

func newRootCommand() *cobra.Command {
	opts := newDaemonOptions()
	gates := featuregate.NewFeatureGate()
	_ = logsapi.AddFeatureGates(gates) // fails only where a gate is added twice

	cmd := &cobra.Command{
		Use:   "podconfigd",
		Short: "Merge the pods of a node and serve every change on a unix socket",
		Long: `podconfigd decides which pods belong on this node, with the rules of the kubelet.
It takes the pods from a manifest directory, a manifest URL and an apiserver.
It serves every change on a unix socket as one ordered, resumable stream.

Without a subcommand, podconfigd runs the daemon.`,
		Example: `  # Run the daemon with a directory of static pod manifests
  podconfigd --pod-manifest-path /etc/kubernetes/manifests

  # Print the pods of the node, then every change
  podconfigd watch

  # Read the stream with another client
  curl -N --unix-socket /run/podconfigd/podconfigd.sock http://localhost/v1alpha1/updates`,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := opts.load(cmd.Flags())
			if err != nil {
				return err
			}
			sink := logsink.New(os.Stderr, logsink.DefaultSize, reportDropped)
			defer sink.Close(logCloseTimeout)
			if err := startLogging(sink, &loaded.Logging, gates); err != nil {
				return err
			}
			loaded.Daemon.Collectors = append(loaded.Daemon.Collectors, droppedLines(sink))
			return runDaemon(cmd.Context(), &loaded.Daemon)
		},
	}
	opts.addFlags(cmd.Flags())
	opts.addLogFlags(cmd.Flags())
	cmd.AddCommand(newWatchCommand(), newGetCommand(), newStatusCommand(), newHistoryCommand(), newLookupCommand(), newResyncCommand(), newReleaseCommand(), newProxyCommand(),
		newValidateCommand(), newConfigCommand(), newVersionCommand())
	cmd.InitDefaultCompletionCmd()
	for _, group := range cmd.Commands() {
		if !group.Runnable() {
			group.Args, group.DisableFlagsInUseLine = noArgs, true
			group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return cmd
}

// noArgs refuses arguments. For a command with subcommands, the error reports an unknown
// command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what := "unexpected argument"
	if cmd.HasAvailableSubCommands() {
		what = "unknown command"
	}
	return fmt.Errorf("%s %q; see %q", what, args[0], cmd.CommandPath()+" --help")
}

// someArgs requires at least one argument and at most most; 0 is no maximum. what names
// the argument in errors.
func someArgs(what string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing; see %q", what, cmd.CommandPath()+" --help")
		case most > 0 && len(args) > most:
			return fmt.Errorf("unexpected argument %q; see %q", args[most], cmd.CommandPath()+" --help")
		}
		return nil
	}
}
