package terminal

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// daemon is a podconfigd with a directory of manifests.
type daemon struct {
	t         *testing.T
	cmd       *exec.Cmd
	flags     []string
	manifests string
	socket    string
	client    *client.Client
	log       testutil.Buffer
}

// startDaemon starts a daemon with manifests for the pods of that name.
func startDaemon(t *testing.T, pods []string, flags ...string) *daemon {
	t.Helper()
	dir := testutil.ShortDir(t)
	d := &daemon{t: t, manifests: filepath.Join(dir, "m"), socket: filepath.Join(dir, "s")}
	if err := os.Mkdir(d.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range pods {
		d.write(name+".yaml", podManifest(name, "nginx:1.27"))
	}
	d.flags = append([]string{"--pod-manifest-path", d.manifests, "--hostname-override", "node1", "--socket", d.socket}, flags...)
	d.client = client.New(d.socket)
	d.start()
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("the log of the daemon:\n%s", d.log.String())
		}
	})
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	d.cmd = exec.Command(daemonProgram, d.flags...)
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	testutil.Eventually(d.t, func() error {
		status, err := d.client.Status(d.t.Context())
		if err == nil && !status.Ready {
			err = errors.New("the daemon is not ready")
		}
		return err
	})
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait() // it was killed
}

// write renames a manifest into the directory.
func (d *daemon) write(name, content string) {
	d.t.Helper()
	temp := filepath.Join(filepath.Dir(d.manifests), "new")
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(d.manifests, name)); err != nil {
		d.t.Fatal(err)
	}
}

func podManifest(name, image string) string {
	return strings.NewReplacer("NAME", name, "IMAGE", image).Replace(`apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers: [{name: main, image: "IMAGE"}]
`)
}
