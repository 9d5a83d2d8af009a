package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// printTimeout is how long a program waits at its end for its error to be written.
const printTimeout = time.Second

// SetUp adds to a root command what both programs have: the version, help, completions, and errors that say what is expected.
func SetUp(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.AddCommand(newVersionCommand())
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultCompletionCmd()
	for _, group := range append(root.Commands(), root) {
		if !group.Runnable() {
			group.Args, group.DisableFlagsInUseLine = NoArgs, true
			group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	addVersionFlag(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = helpArgs
	}
}

// Main runs a program until its command ends, or a signal ends it. It returns the exit code.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stderr := printable.Writer(os.Stderr) // errors have texts of others
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(stderr, root.Name()+":", err)
	}()
	select {
	case <-printed:
	case <-time.After(printTimeout): // stderr is blocked
	}
	return 1
}
