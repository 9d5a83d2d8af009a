// Command podconfigd merges the pods from the sources of a node and serves every change
// on a unix socket.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/podconfigd/podconfigd/internal/command"
)

func main() {
	signal.Ignore(syscall.SIGHUP) // a reload that comes before the daemon can take it does not end it
	os.Exit(command.Main(newRootCommand()))
}
