package daemon

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

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// startWithPipe starts podconfigd with a small pipe as stderr, and returns the read end.
func startWithPipe(t *testing.T) (*e2e.Daemon, *os.File) {
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
	d := &e2e.Daemon{Dir: dir, Socket: filepath.Join(dir, "s"), Log: new(testutil.Buffer)}
	d.Client = client.New(d.Socket)
	d.Mkdir(t)
	d.Cmd = exec.Command(e2e.Binary, "--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", d.Socket,
		"--hostname-override", "node1", "-v", "4")
	d.Cmd.Stderr = write
	if err := d.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // only the daemon has it now
	t.Cleanup(func() {
		if d.Cmd.ProcessState == nil {
			_ = d.Cmd.Process.Kill()
			_ = d.Cmd.Wait()
		}
	})
	return d, read
}

// changes makes the daemon log much more than the pipe and the queue hold, and checks
// that each change is delivered.
func makeChanges(t *testing.T, d *e2e.Daemon, s *e2e.Stream, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		d.Put(t, "a", fmt.Sprintf("image:%d", i))
		if i == from {
			s.Expect(t, "ADD a-node1")
		} else {
			s.Expect(t, "REMOVE a-node1", "ADD a-node1")
		}
	}
}

// A blocked stderr stops neither the pods nor SIGTERM.
func TestAStderrThatNobodyReads(t *testing.T) {
	t.Parallel()
	d, _ := startWithPipe(t)
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	makeChanges(t, d, s, 0, 200)
	fetch := exec.Command("curl", "-sS", "--unix-socket", d.Socket, "http://localhost/metrics")
	metrics, err := fetch.Output()
	if err != nil || !strings.Contains(string(metrics), "podconfigd_log_dropped_lines_total") {
		t.Errorf("no count of dropped lines in the metrics: %v", err)
	}
	giveUp := time.AfterFunc(testutil.Patience, func() { _ = d.Cmd.Process.Kill() })
	defer giveUp.Stop()
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Lstat(d.Socket); err == nil {
		t.Error("the socket is left behind")
	}
}

// A broken stderr does not end the daemon.
func TestABrokenStderr(t *testing.T) {
	t.Parallel()
	d, read := startWithPipe(t)
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	makeChanges(t, d, s, 0, 5)
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
