package daemon

import (
	"context"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/server"
)

// part is something that the daemon runs. What is not configured is no part. All fields but name and run are optional.
type part struct {
	// name is the one by which options name the part that takes their changes.
	name string
	// run returns when the context is done, or with an error, which ends the daemon.
	run func(context.Context) error
	// reload takes a changed configuration while run runs. Its error is the cause of the context.
	reload func(context.Context, *Config) error
	// status adds what the part knows.
	status func(*v1alpha1.Status)
	// live and ready are checks of /livez and /readyz.
	live, ready []server.Check
}

// reloaded is the reload of a part that takes a changed configuration without waiting.
func reloaded(take func(*Config)) func(context.Context, *Config) error {
	return func(_ context.Context, c *Config) error {
		take(c)
		return nil
	}
}

// checks returns the checks of /livez and /readyz, in the order of the parts.
func (d *Daemon) checks() (live, ready []server.Check) {
	for _, p := range d.parts {
		live, ready = append(live, p.live...), append(ready, p.ready...)
	}
	return live, ready
}
