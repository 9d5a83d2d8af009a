package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// nameTimeout is how long a machine without a name of its own may take to get one after the start, and namePeriod how often
	// its name is read in that time.
	nameTimeout = time.Minute
	namePeriod  = 200 * time.Millisecond
)

// placeholders are the names of machines that have none yet: those of Linux, systemd and the distributions.
var placeholders = []string{"", "(none)", "localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6"}

// hostname is os.Hostname; tests replace it.
var hostname = os.Hostname

// unnamed returns the name of the machine and whether it is only a placeholder. With a configured name, it does not matter.
func (c *Config) unnamed() (name string, is bool) {
	name, err := hostname()
	name = strings.ToLower(strings.TrimSpace(name))
	return name, c.HostnameOverride == "" && err == nil && slices.Contains(placeholders, name)
}

// Unnamed reports whether the name of the node would be one that machines have only until they get their own. Call
// AwaitName then, before New.
func (c *Config) Unnamed() bool {
	_, is := c.unnamed()
	return is
}

var errNamed = errors.New("the machine has a name")

// AwaitName waits until the machine has a name of its own, for at most a minute. The names and UIDs of static pods, and the state
// directory, belong to the name of the node, so no source is read yet. Meanwhile, the sockets answer: the status says what is
// missing, and /readyz fails. Without a service manager that has the sockets, that is: their clients wait. If the configuration is
// not valid or an address is in use, it does not wait, and returns the error.
func AwaitName(ctx context.Context, c Config) error { //nolint:gocritic // it is called once, like New
	logger := klog.FromContext(ctx)
	name, _ := c.unnamed()
	c.waiting = fmt.Sprintf("waiting until %s for the name of the machine, which is %q: names and UIDs of static pods contain it; set --hostname-override to start at once",
		time.Now().Add(nameTimeout).Local().Format(time.TimeOnly), name)
	logger.Info("The machine has no name of its own yet; waiting for it. To start at once, set --hostname-override", "hostname", name, "timeout", nameTimeout)
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := c.serveUnnamed(waiting)
		if err != nil {
			stop(err) // there is nothing to wait for
		}
		ended <- err
	}()
	stop(c.awaitName(waiting))
	err := <-ended
	switch name, is := c.unnamed(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case is:
		logger.Info("The machine still has no name of its own; static pods get this one. To give the node another, set --hostname-override", "hostname", name)
	}
	return nil
}

// awaitName waits for the name. It returns an error when that is over.
func (c *Config) awaitName(ctx context.Context) error {
	for until := time.Now().Add(nameTimeout); time.Now().Before(until); {
		if err := await.For(ctx, namePeriod); err != nil {
			return err
		}
		if !c.Unnamed() {
			break
		}
	}
	return errNamed
}

// serveUnnamed serves the sockets of a daemon that reads nothing and writes nothing, until the context is done.
func (c Config) serveUnnamed(ctx context.Context) error { //nolint:gocritic // New takes a value too
	if c.SocketActivation && os.Getenv("LISTEN_FDS") != "" {
		return nil // the sockets are passed once
	}
	unnamed := c
	unnamed.PodConfigdConfiguration = *c.DeepCopy()
	unnamed.HostnameOverride = "localhost"
	unnamed.StateDir, unnamed.CreateMirrorPods = "", false
	unnamed.NotifyServiceManager = false // it waits
	d, err := New(unnamed)
	if err != nil {
		return err
	}
	if err = d.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// nameProblem adds a problem if the daemon waits for the name of the machine, or if that has changed. Like the kubelet, it keeps the
// name that it started with.
func (d *Daemon) nameProblem(status *v1alpha1.Status) {
	if d.config.waiting != "" {
		status.Problems = append(status.Problems, d.config.waiting)
		return
	}
	if name, _ := d.config.unnamed(); d.config.HostnameOverride == "" && name != "" && name != string(d.node) {
		status.Problems = append(status.Problems, fmt.Sprintf(
			"the host name is now %q, and the node is %s until podconfigd is restarted: then the static pods get other names; to keep them, set --hostname-override=%[2]s", name, d.node))
	}
}
