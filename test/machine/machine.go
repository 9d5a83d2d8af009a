// Package machine runs Debian's systemd as PID 1 of a machine for a test: PID, mount, UTS, IPC,
// network and cgroup namespaces, and an overlay of the file system of the machine that runs the test,
// which is not changed. The machine has no service of its own. It requires root.
package machine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/testutil"
)

//go:embed boot.sh
var boot string

// Machine is a running machine.
type Machine struct {
	// pid is PID 1 of the machine.
	pid     int
	console *testutil.Buffer
}

// Supported skips the test if it is a short one, or does not run as root.
func Supported(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs systemd")
	}
	if os.Geteuid() != 0 {
		t.Skip("requires root, for namespaces and mounts")
	}
}

// Start starts a machine until the test ends, if it is supported.
func Start(t *testing.T) *Machine {
	t.Helper()
	Supported(t)
	m := &Machine{console: new(testutil.Buffer)}
	cgroup := newCgroup(t)
	cmd := exec.CommandContext(context.Background(), "unshare", "--cgroup", "--mount", "--uts", "--ipc", "--net", "bash", "-c", boot, "boot", t.TempDir())
	cmd.Stdout, cmd.Stderr = m.console, m.console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Setsid: true, UseCgroupFD: true, CgroupFD: int(cgroup.Fd()), Pdeathsig: syscall.SIGKILL,
	}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is the death of the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting the machine: %v", err)
	}
	m.pid = cmd.Process.Pid
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the console of the machine:\n%s\nits log:\n%s", m.console, m.Log(""))
		}
		_ = cmd.Process.Kill() // with PID 1, all processes of the machine end
		<-ended
	})
	testutil.Until(t, "the machine runs", func() bool {
		select {
		case <-ended:
			t.Fatal("the machine ended")
		default:
		}
		out, _ := m.Command("systemctl", "is-system-running").Output()
		return strings.TrimSpace(string(out)) == "running"
	})
	return m
}

// newCgroup returns a new cgroup of version 2 until the test ends.
func newCgroup(t *testing.T) *os.File {
	t.Helper()
	parent := "/sys/fs/cgroup"
	for _, dir := range []string{parent, parent + "/unified"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			parent = dir
			break
		}
	}
	path, err := os.MkdirTemp(parent, "podconfigd-test-")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dir.Close() // nothing was written
		testutil.Eventually(t, func() error { return removeCgroups(path) })
	})
	return dir
}

// removeCgroups removes a cgroup with those below it.
func removeCgroups(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeCgroups(filepath.Join(path, e.Name())))
		}
	}
	return errors.Join(append(errs, os.Remove(path))...)
}

// Write writes a file of the machine, and makes the directories above it.
func (m *Machine) Write(t *testing.T, path, content string) {
	t.Helper()
	path = m.Path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Copy copies a file into the machine, and makes the directories above it. It keeps its mode.
func (m *Machine) Copy(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	mode := fmt.Sprintf("--mode=%o", info.Mode().Perm())
	if out, err := exec.CommandContext(t.Context(), "install", "-D", mode, from, m.Path(to)).CombinedOutput(); err != nil {
		t.Fatalf("copying %s: %v\n%s", from, err, out)
	}
}

// Command is exec.Command in the machine.
func (m *Machine) Command(name string, args ...string) *exec.Cmd {
	args = append([]string{"--target", strconv.Itoa(m.pid), "--all", "--root", "--wd=/", name}, args...)
	return exec.CommandContext(context.Background(), "nsenter", args...)
}

// Run runs a command in the machine, and returns its output without the space around it.
func (m *Machine) Run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := m.Try(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Try is Run for a command that can fail.
func (m *Machine) Try(name string, args ...string) (string, error) {
	out, err := m.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// Path returns the path outside of the machine of a path in it.
func (m *Machine) Path(path string) string {
	return "/proc/" + strconv.Itoa(m.pid) + "/root" + path
}

// Log returns the log of a unit: what it wrote to stdout and stderr, and what systemd says about it.
// Without a unit, it is the whole log.
func (m *Machine) Log(unit string) string {
	args := []string{"--no-pager", "--output=cat"}
	if unit != "" {
		args = append(args, "--unit="+unit)
	}
	out, err := m.Try("journalctl", args...)
	if err != nil {
		return err.Error()
	}
	return out
}

// Show returns a property of a unit.
func (m *Machine) Show(t *testing.T, unit, property string) string {
	t.Helper()
	return m.Run(t, "systemctl", "show", "--value", "--property", property, unit)
}
