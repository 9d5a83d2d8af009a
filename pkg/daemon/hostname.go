package daemon

import (
	"context"
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

// AwaitName waits until the machine has a name of its own, for at most a minute. The names and UIDs of static pods, and the state
// directory, belong to the name of the node. The error is the cause of the context.
func (c *Config) AwaitName(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	name, _ := c.unnamed()
	logger.Info("The machine has no name of its own yet; waiting for it. To start at once, set --hostname-override", "hostname", name, "timeout", nameTimeout)
	for until := time.Now().Add(nameTimeout); time.Now().Before(until); {
		if err := await.For(ctx, namePeriod); err != nil {
			return err
		}
		if !c.Unnamed() {
			return nil
		}
	}
	logger.Info("The machine still has no name of its own; static pods get this one. To give the node another, set --hostname-override", "hostname", name)
	return nil
}

// nameProblem adds a problem if the name of the machine has changed. Like the kubelet, the daemon keeps the name that it started with.
func (d *Daemon) nameProblem(status *v1alpha1.Status) {
	if name, _ := d.config.unnamed(); d.config.HostnameOverride == "" && name != "" && name != string(d.node) {
		status.Problems = append(status.Problems, fmt.Sprintf(
			"the host name is now %q, and the node is %s until podconfigd is restarted: then the static pods get other names; to keep them, set --hostname-override=%[2]s", name, d.node))
	}
}
