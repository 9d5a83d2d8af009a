package daemon

import (
	"context"
	"time"
)

// MaxConnections returns the limit of connections, for tests.
func (d *Daemon) MaxConnections() int { return d.server.MaxConnections() }

// StopLoop makes the sync loop stop when the channel is closed, while the other parts run, and sets the time after which the
// daemon is not live.
func (d *Daemon) StopLoop(stop <-chan struct{}, threshold time.Duration) {
	d.loopThreshold = threshold
	for i := range d.parts {
		if run := d.parts[i].run; d.parts[i].name == "loop" {
			d.parts[i].run = func(ctx context.Context) error {
				until, cancel := context.WithCancel(ctx)
				defer cancel()
				go func() {
					select {
					case <-stop:
						cancel()
					case <-until.Done():
					}
				}()
				_ = run(until) // its error is the cause of until
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}
	}
}
