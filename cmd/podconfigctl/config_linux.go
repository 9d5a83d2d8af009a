package main

import (
	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/config"
)

// configCommands returns the command that has the daemon's code of its configuration.
func configCommands() []*cobra.Command { return []*cobra.Command{config.NewCommand()} }
