package top

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/podconfigd/podconfigd/internal/cli"
)

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var config Config
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the daemon live in the terminal",
		Long: `Show the daemon live in the terminal: its sources, the verdicts on manifests, the pods, the
last updates with their rate, and the subscribers with their lag.

Keys select a pane and a row, filter the lists, and open the YAML, the history and the
differences of a pod, why it runs or not, or the verdict on a manifest. The key ? lists them.

If the connection to the daemon breaks, top reconnects and resumes the stream. It has no
colors if the environment variable NO_COLOR is set.`,
		Example: `  # Show the daemon
  podconfigd top

  # Show the pods of one namespace, of a daemon on another node
  podconfigd top -n kube-system --server https://node1:10250 --token-file token`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Client()
			if err != nil {
				return err
			}
			if err := checkTerminal(); err != nil {
				return err
			}
			config.Client, config.Address = c, flags.Address()
			if flags.Local() {
				config.PID = os.Getpid()
			}
			config.Input, config.Output = os.Stdin, os.Stdout
			// The view ends with its terminal.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return Run(ctx, config)
		},
	}
	flags.AddTo(cmd)
	f := cmd.Flags()
	f.StringVarP(&config.Stream.Namespace, "namespace", "n", "", "Show pods and updates of one namespace.")
	f.StringVarP(&config.Stream.LabelSelector, "selector", "l", "", "Show pods and updates by label, for example app=web.")
	flags.CompleteNamespace(cmd)
	return cmd
}

// checkTerminal returns an error if the view can't be drawn.
func checkTerminal() error {
	const instead = `use "podconfigd watch", which prints lines`
	switch {
	case !term.IsTerminal(int(os.Stdout.Fd())):
		return errors.New("top: standard output is not a terminal: " + instead)
	case !term.IsTerminal(int(os.Stdin.Fd())):
		return errors.New("top: standard input is not a terminal: " + instead)
	}
	if name := os.Getenv("TERM"); runtime.GOOS != "windows" && (name == "" || name == "dumb") {
		return fmt.Errorf("top: the terminal can't move its cursor (TERM=%s): %s", cmp.Or(name, `""`), instead)
	}
	return nil
}
