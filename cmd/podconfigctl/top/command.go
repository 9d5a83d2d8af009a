// Package top is the live view of a daemon in a terminal: its sources, manifests, pods,
// updates and subscribers.
//
// The feed reads the stream and polls the status, and sends both to the model as messages.
// The model changes only in Update, and View draws it. All text of the daemon passes clean
// before it is drawn, so that no control character of a manifest reaches the terminal.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Config configures the view.
type Config struct {
	Client *client.Client
	// Stream selects the pods and updates.
	Stream client.Options
	// Address is shown while there is no connection. PID is the process that the list of
	// subscribers marks as this view; 0 marks none.
	Address string
	PID     int
}

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
  podconfigctl top

  # Show the pods of one namespace, of a daemon on another node
  podconfigctl top -n kube-system --server https://node1:10250 --token-file token`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && slices.Contains([]string{"pod", "pods", "node", "nodes"}, args[0]) { // kubectl top
				return fmt.Errorf("unexpected argument %q: top shows what the daemon has, not the use of CPU and memory; see %q", args[0], cmd.CommandPath()+" --help")
			}
			return command.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Client()
			if err != nil {
				return err
			}
			if _, err := labels.Parse(config.Stream.LabelSelector); err != nil {
				return fmt.Errorf("--selector: %w", err)
			}
			if _, err := podfields.ParseOwner(config.Stream.Owner); err != nil {
				return fmt.Errorf("--owner: %w", err)
			}
			if err := checkTerminal(); err != nil {
				return err
			}
			config.Client, config.Address = c, flags.Address()
			if flags.Local() {
				config.PID = os.Getpid()
			}
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
	f.StringVar(&config.Stream.Owner, "owner", "", cli.OwnerHelp)
	flags.CompleteNamespace(cmd)
	return cmd
}

// checkTerminal returns an error if the view can't be drawn.
func checkTerminal() error {
	const instead = `use "podconfigctl watch", which prints lines`
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

// Run shows the view until the user quits or the context is done.
func Run(ctx context.Context, config Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, &config)
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(os.Stdin), tea.WithOutput(os.Stdout), tea.WithoutSignalHandler())
	f := &feed{client: config.Client, opts: config.Stream, send: program.Send}
	var feeding sync.WaitGroup
	feeding.Go(func() { f.run(ctx) })
	_, err := program.Run()
	stopped := ctx.Err() != nil
	cancel()
	feeding.Wait()
	if stopped && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return nil
}
