// Command podconfigctl reads and controls podconfigd, and checks its manifests and its configuration.
package main

import (
	"os"

	"github.com/podconfigd/podconfigd/internal/command"
)

func main() { os.Exit(command.Main(newRootCommand())) }
