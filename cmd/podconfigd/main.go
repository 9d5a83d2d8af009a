// Command podconfigd merges the pods from the sources of a node and serves every change
// on a unix socket.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/cmd/podconfigd/ownership"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

func main() {
	signal.Ignore(syscall.SIGHUP) // a reload that comes before the daemon can take it does not end it
	os.Exit(command.Main(newRootCommand()))
}

// newRootCommand returns the command of the daemon with its subcommands.
func newRootCommand() *cobra.Command {
	cmd := newDaemonCommand()
	cmd.AddCommand(newPrepareCommand())
	cmd.AddCommand(movedCommands()...)
	command.SetUp(cmd)
	return cmd
}

// moved are the commands of podconfigctl that podconfigd had.
var moved = []string{"config", "get", "history", "lookup", "proxy", "release", "resync", "status", "top", "validate", "watch"}

// movedCommands returns commands that name the new ones.
func movedCommands() (commands []*cobra.Command) {
	for _, name := range moved {
		say := func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "podconfigd: %s is a command of podconfigctl: use %q\n", name, "podconfigctl "+name)
		}
		c := &cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				say(cmd, args)
				return &command.ExitError{Code: exitMoved}
			},
		}
		c.SetHelpFunc(say)
		commands = append(commands, c)
	}
	return commands
}

// exitMoved is the exit code of a command that podconfigd no longer has.
const exitMoved = 2

// start makes the daemon. The error has every fault of the configuration.
func start(loaded *configfile.Configuration) (*daemon.Daemon, error) {
	if loaded.Faulty() {
		return nil, loaded.Check()
	}
	d, err := daemon.New(loaded.Config)
	if err != nil {
		return nil, loaded.Locate(err)
	}
	return d, nil
}

// runDaemon runs the daemon until the context is done, and reloads its configuration.
func runDaemon(ctx context.Context, d *daemon.Daemon, r *reloader) error {
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	var others sync.WaitGroup
	others.Go(func() { r.run(running, d) })
	others.Go(func() { freeMemory(running) })
	err := d.Run(running)
	stop()
	others.Wait()
	return ended(ctx, err)
}

// startTime is how long a start takes at most, with few exceptions.
const startTime = 10 * time.Second

// freeMemory gives the memory back that only the start needed.
func freeMemory(ctx context.Context) {
	if await.For(ctx, startTime) == nil {
		runtime.GC() // what is in pools is garbage after two collections
		debug.FreeOSMemory()
	}
}

// ended returns the error, unless the context ended, which is a normal stop.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

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
