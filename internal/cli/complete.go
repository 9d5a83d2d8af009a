package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// CompletionTimeout is the time in which the daemon must answer a request for a completion.
const CompletionTimeout = time.Second

// Sources returns the names of the sources of the daemon for a completion, or those of the
// kubelet if there is no daemon.
func (f *ClientFlags) Sources() ([]string, cobra.ShellCompDirective) {
	names := []string{"file", "http", "api"}
	c, err := f.Client()
	if err != nil {
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), CompletionTimeout)
	defer cancel()
	status, err := c.Status(ctx)
	if err != nil {
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	names = nil
	for i := range status.Sources {
		names = append(names, status.Sources[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteSource completes the flag --source of the command.
func (f *ClientFlags) CompleteSource(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("source", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return f.Sources()
	}) // fails only if there is no such flag
}
