//go:build !linux

package main

import "github.com/spf13/cobra"

// offlineCommands returns the commands that have code of the daemon: none, since it runs on Linux only.
func offlineCommands() []*cobra.Command { return nil }
