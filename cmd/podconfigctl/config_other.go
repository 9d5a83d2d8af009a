//go:build !linux

package main

import "github.com/spf13/cobra"

// configCommands returns nothing: the daemon runs on Linux only.
func configCommands() []*cobra.Command { return nil }
