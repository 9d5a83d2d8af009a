// Command podconfigd merges the pods from the sources of a node and serves every change
// on a unix socket.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/podconfigd/podconfigd/internal/cli"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// logCloseTimeout is how long the daemon waits at its end for log lines to be written.
const logCloseTimeout = time.Second

func main() { os.Exit(run()) }

// run runs the command and returns its exit code.
func run() int {
	signal.Ignore(syscall.SIGHUP) // only the daemon has a configuration to reload
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stderr := printable.Writer(os.Stderr) // errors have texts of others
	root := newRootCommand()
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*cli.ExitError](err); ok {
		return exit.Code
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(stderr, "podconfigd:", err)
	}()
	select {
	case <-printed:
	case <-time.After(logCloseTimeout): // stderr is blocked
	}
	return 1
}
