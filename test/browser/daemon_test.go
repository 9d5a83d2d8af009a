package browser

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// daemon is a daemon with its own directories. It can be killed and started again at the same address.
type daemon struct {
	t         *testing.T
	dir       string
	manifests string
	args      []string
	url       string
	running   *exec.Cmd
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// newDaemon starts a daemon that serves a read-only port.
func newDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := prepare(t)
	d.url = "http://127.0.0.1:" + freePort(t)
	d.args = append(d.args, append([]string{"--listen", d.url}, args...)...)
	d.start()
	return d
}

// prepare makes the directories of a daemon.
func prepare(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir()}
	d.manifests = filepath.Join(d.dir, "manifests")
	if err := os.Mkdir(d.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	d.args = []string{
		"--pod-manifest-path", d.manifests, "--hostname-override", "node1",
		"--socket", filepath.Join(d.dir, "socket"), "--state-dir", filepath.Join(d.dir, "state"),
	}
	t.Cleanup(d.kill)
	return d
}

// start starts the daemon, and returns when it serves.
func (d *daemon) start() {
	d.t.Helper()
	d.running = run(d.t, os.Getenv("PODCONFIGD"), "podconfigd started", d.args...)
}

// run starts a program, and returns when its output has a text.
func run(t *testing.T, program, until string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %q, from PODCONFIGD or PODCONFIGCTL: %v", program, err)
	}
	_ = in.Close()
	var log strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), until) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return cmd
		}
	}
	_ = cmd.Wait()
	t.Fatalf("%q ended:\n%s", args, log.String())
	return nil
}

// kill kills the daemon with SIGKILL.
func (d *daemon) kill() { stop(d.running) }

func stop(cmd *exec.Cmd) {
	if cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// write replaces a manifest as a careful writer does.
func (d *daemon) write(name, text string) {
	d.t.Helper()
	temporary := filepath.Join(d.dir, "temporary")
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(d.manifests, name)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) remove(name string) {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.manifests, name)); err != nil {
		d.t.Fatal(err)
	}
}

// pod is the manifest of a pod.
func pod(name, image string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  containers:
  - name: main
    image: %s
    ports:
    - containerPort: 8080
`, name, image)
}
