package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// binary is a copy of the daemon, as built by "make build".
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "pc")
		if err == nil {
			defer os.RemoveAll(dir)
			binary, err = copyProgram(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// copyProgram returns a copy of the daemon. The long form takes hours, and starts it
// often. A build in the meantime must not change it.
func copyProgram(dir string) (string, error) {
	built, err := testutil.Program(".", "./cmd/podconfigd")
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "podconfigd")
	return path, os.WriteFile(path, data, 0o700)
}

// daemon is a podconfigd that is killed and started again.
type daemon struct {
	socket string
	args   []string
	log    *testutil.Buffer
	cmd    *exec.Cmd
}

// newDaemon returns a daemon with the directory "manifests" of dir. It does not start it.
func newDaemon(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	d := &daemon{socket: filepath.Join(dir, "s"), log: new(testutil.Buffer)}
	d.args = append([]string{
		"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", d.socket, "--hostname-override", nodeName,
		"--sync-frequency", "24h", // a SYNC takes revisions, also if no subscriber requests it
		"--http-check-frequency", "10ms",
	}, args...)
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			path := filepath.Join(os.TempDir(), "podconfigd-soak.log")
			t.Logf("the log of podconfigd is in %s: %v", path, os.WriteFile(path, []byte(d.log.String()), 0o600))
		}
	})
	return d
}

// stateDir returns a directory in memory if there is one: an fsync that takes longer than a
// second on a busy disk is a fault, and begins a new instance.
func stateDir(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "podconfigd-soak")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (d *daemon) start(t *testing.T) {
	t.Helper()
	d.cmd = exec.Command(binary, d.args...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the daemon with SIGKILL.
func (d *daemon) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		d.cmd = nil
	}
}
