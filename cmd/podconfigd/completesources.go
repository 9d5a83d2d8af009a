package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout is the time in which the daemon must answer a request for a completion.
const completionTimeout = time.Second

// sources returns the names of the sources of the daemon for a completion, or those of the
// kubelet if there is no daemon.
func (f *clientFlags) sources(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	names := []string{"file", "http", "api"}
	c, err := f.client(cmd)
	if err != nil {
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
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

// completeSource completes the flag --source of the command.
func (f *clientFlags) completeSource(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("source", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.sources(cmd)
	}) // fails only if there is no such flag
}
