package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// startWithPipe starts podconfigd with a small pipe as stderr, and returns the read end.
func startWithPipe(t *testing.T) (*daemon, *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	if _, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	dir := testutil.ShortDir(t)
	d := &daemon{dir: dir, socket: filepath.Join(dir, "s"), log: new(testutil.Buffer)}
	d.client = client.New(d.socket)
	d.mkdir(t)
	d.cmd = exec.Command(binary, "--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", d.socket,
		"--hostname-override", "node1", "-v", "4")
	d.cmd.Stderr = write
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // only the daemon has it now
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	return d, read
}

// changes makes the daemon log much more than the pipe and the queue hold, and checks
// that each change is delivered.
func (d *daemon) changes(t *testing.T, s *stream, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		d.put(t, "a", fmt.Sprintf("image:%d", i))
		if i == from {
			s.expect(t, "ADD a-node1")
		} else {
			s.expect(t, "REMOVE a-node1", "ADD a-node1")
		}
	}
}

// A blocked stderr stops neither the pods nor SIGTERM.
func TestAStderrThatNobodyReads(t *testing.T) {
	t.Parallel()
	d, _ := startWithPipe(t)
	s := d.watch(t, client.Options{})
	syncUp(t, s)
	d.changes(t, s, 0, 200)
	fetch := exec.Command("curl", "-sS", "--unix-socket", d.socket, "http://localhost/metrics")
	metrics, err := fetch.Output()
	if err != nil || !strings.Contains(string(metrics), "podconfigd_log_dropped_lines_total") {
		t.Errorf("no count of dropped lines in the metrics: %v", err)
	}
	giveUp := time.AfterFunc(testutil.Patience, func() { _ = d.cmd.Process.Kill() })
	defer giveUp.Stop()
	if _, err := d.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Lstat(d.socket); err == nil {
		t.Error("the socket is left behind")
	}
}

// A broken stderr does not end the daemon.
func TestABrokenStderr(t *testing.T) {
	t.Parallel()
	d, read := startWithPipe(t)
	s := d.watch(t, client.Options{})
	syncUp(t, s)
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	d.changes(t, s, 0, 5)
	if _, err := d.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
