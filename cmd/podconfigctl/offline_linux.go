package main

import (
	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/config"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/validate"
)

// offlineCommands returns the commands that have code of the daemon, and connect to none.
func offlineCommands() []*cobra.Command {
	return []*cobra.Command{validate.NewCommand(), config.NewCommand()}
}
