// Package release has the command release, which applies the held set of a source.
package release

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Options are the source and the flags of release.
type Options struct {
	source string
	// removes is the number of pods that the set may remove. It counts only if limited.
	removes int
	limited bool
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:   "release SOURCE",
		Short: "Apply the held set of a source, which removes pods",
		Long: `Apply the held set of a source, which removes pods.

With --removal-brake, the daemon holds a set that would remove too many pods of its source.
"podconfigctl status" shows how many. SOURCE is file, http, api, file:NAME or http:NAME. The next
set of the source is limited again. A newer set can be held than the one that you looked at:
--removes says how many pods it may remove.`,
		Example: `  # Apply the held set of the manifest directory
  podconfigctl release file

  # Apply it only if it still removes at most 12 pods
  podconfigctl release file --removes=12`,
		Args: command.SomeArgs("SOURCE", 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return flags.Sources()
		},
		RunE: flags.RunE(func(cmd *cobra.Command, args []string) error {
			opts.source, opts.limited = args[0], cmd.Flags().Changed("removes")
			if opts.removes < 0 || opts.removes > math.MaxInt32 {
				return fmt.Errorf("--removes: %d is out of range: expected 0 to %d", opts.removes, math.MaxInt32)
			}
			if _, err := config.ParseSource(opts.source); err != nil {
				return fmt.Errorf("SOURCE: %w", err)
			}
			return nil
		}, opts.Run),
	}
	flags.AddTo(cmd)
	cmd.Flags().IntVar(&opts.removes, "removes", 0, "Number of pods that the set may remove: 0 to 2147483647. If the newest held set removes more, it stays held. (default any number)")
	return cmd
}

// Run asks the daemon to apply the held set.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	var err error
	if o.limited {
		err = c.ReleaseUpTo(ctx, o.source, o.removes)
	} else {
		err = c.Release(ctx, o.source)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "source/%s released\n", o.source)
	return err
}
