// Package top is the live view of a daemon in a terminal: its sources, manifests, pods,
// updates and subscribers.
//
// The feed reads the stream and polls the status, and sends both to the model as messages.
// The model changes only in Update, and View draws it. All text of the daemon passes clean
// before it is drawn, so that no control character of a manifest reaches the terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	tea "charm.land/bubbletea/v2"

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
	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer
}

// Run shows the view until the user quits or the context is done.
func Run(ctx context.Context, config Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, &config)
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(config.Input), tea.WithOutput(config.Output),
		tea.WithoutSignalHandler())
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
