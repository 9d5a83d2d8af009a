package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigd/ownership"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// newPrepareCommand returns the command of the init container of deploy/kubernetes.
func newPrepareCommand() *cobra.Command {
	var owner string
	cmd := &cobra.Command{
		Use:   "prepare --owner UID:GID DIR...",
		Short: "Create directories for a daemon that does not run as root",
		Long: `Create the directories for the socket and the state of a daemon that does not run as root, and
give them to its user. It runs as root before the daemon starts, for example in an init container.
Of root's capabilities it needs CAP_CHOWN.

A directory that belongs to the user already stays as it is. Otherwise, the user gets the files
of podconfigd in it too. If there is anything else in it, nothing is changed and it is an error:
give podconfigd a directory of its own. A symbolic link in place of a directory is an error too,
and so is a file with a second name (a hard link).`,
		Example: `  # Create the directories for a daemon that runs as user and group 65532
  podconfigd prepare --owner 65532:65532 /run/podconfigd /var/lib/podconfigd`,
		Args: command.SomeArgs("DIR", 0),
		RunE: func(_ *cobra.Command, args []string) error {
			to, err := ownership.ParseOwner(owner)
			if err != nil {
				return fmt.Errorf("--owner: %w", err)
			}
			for _, dir := range args {
				if err := ownership.Give(dir, to, daemon.MadeFile); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "", "User and group that get the directories, as UID:GID.")
	return cmd
}
