package daemon

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// A runtime that does not answer is in the status, and does not end the daemon.
func TestTheWatchdogDoesNotDependOnTheRuntime(t *testing.T) {
	c := Config{}
	c.StaticPodPath, c.Socket, c.HostnameOverride = t.TempDir(), new(filepath.Join(t.TempDir(), "s")), "node1"
	c.ContainerRuntimeEndpoint, c.NotifyServiceManager = "unix:///no/such/socket", true
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "10000000")
	t.Setenv("WATCHDOG_PID", "")
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.runtime.close()
	d.parts = append(d.parts, part{live: []server.Check{{Name: "pleg", Check: func() error { return errors.New("last seen active 4m ago") }}}})
	if err := d.notifier.Live(); err != nil {
		t.Errorf("the watchdog sees %v", err)
	}
	if status := d.notifier.Status(); !strings.Contains(status, "last seen active 4m ago") {
		t.Errorf("the status is %q", status)
	}
}
