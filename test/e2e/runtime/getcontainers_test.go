package runtime

import (
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestGetContainers runs podconfigctl get containers, and with --watch also over a restart of the daemon.
func TestGetContainers(t *testing.T) {
	t.Parallel()
	testutil.Long(t)
	r := components.StartRuntime(t, components.EachContainerd()[0])
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	args := []string{"--container-runtime-endpoint", "unix://" + r.Socket, "--node-ip", "192.0.2.7"}
	d := e2e.Start(t, dir, args...)
	pods := d.Watch(t, client.Options{})
	d.Put(t, "web", components.Image)
	pods.Expect(t, "ADD web-node1")
	uid := uid(t, d, "web-node1")
	sandbox := r.Sandbox(t, "web-node1", uid)
	app := r.Create(t, sandbox, "web-node1", uid, "app", "pause")
	r.StartContainer(t, app)

	has := func(text func() string, want string) {
		t.Helper()
		pattern := regexp.MustCompile("(?m)^" + want + "$")
		testutil.Eventually(t, func() error {
			if got := text(); !pattern.MatchString(got) {
				return fmt.Errorf("no line %s:\n%s", want, got)
			}
			return nil
		})
	}
	get := func(args ...string) func() string {
		return func() string {
			cmd := exec.Command(e2e.Ctl, append([]string{"get", "containers", "--socket", d.Socket}, args...)...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return string(out)
		}
	}
	has(get(), `NAMESPACE +POD +CONTAINER +STATE +RESTARTS +AGE\ndefault +web-node1 +app +running +0 +\d+s`)
	has(get("-n", "default", "-o", "wide", "--sandboxes"), fmt.Sprintf(`web-node1 +app +running +0 +\d+s +%d +\S+ +%s +file`, r.PID(t, app), app))
	has(get("-n", "default", "-o", "wide", "--sandboxes"), fmt.Sprintf(`web-node1 +<sandbox> +running +0 +\d+s +%d +\S+ +%s +file`, r.SandboxPID(t, sandbox), sandbox))
	has(get("-n", "none"), "No resources found")

	out := new(testutil.Buffer)
	cmd := exec.CommandContext(t.Context(), e2e.Ctl, "get", "co", "-w", "--output-watch-events", "--socket", d.Socket)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	has(out.String, `ADDED +default +web-node1 +app +running .*`)
	d.Again(t, func() { r.RemoveContainer(t, app) }, args...)
	has(out.String, `DELETED +default +web-node1 +app +running .*`)
	r.Create(t, sandbox, "web-node1", uid, "next", "pause")
	has(out.String, `ADDED +default +web-node1 +next +created .*`)
}
