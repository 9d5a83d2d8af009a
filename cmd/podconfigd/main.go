// Command podconfigd merges the pods that a node's sources want and serves every
// change on a unix socket.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run runs the command and returns its exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// There is nothing that a SIGHUP would read again: sources do that by themselves.
	signal.Ignore(syscall.SIGHUP)
	err := newRootCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSilent):
		return 1
	}
	fmt.Fprintln(os.Stderr, "podconfigd:", err)
	return 1
}

// errSilent is the failure of a command that has said already what is wrong.
var errSilent = errors.New("failed")
