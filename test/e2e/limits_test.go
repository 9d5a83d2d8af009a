package e2e

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// ownPIDs has the command run in a PID namespace of its own, as in a container.
func ownPIDs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
}

// refusedWatch watches, and returns the refusal.
func (d *daemon) refusedWatch(t *testing.T) string {
	t.Helper()
	for _, err := range d.client.Updates(t.Context(), client.Options{Once: true}) {
		if err == nil {
			t.Fatal("a place was given")
		}
		var refused *client.RefusedError
		if !errors.As(err, &refused) || refused.Code != 429 {
			t.Fatal(err)
		}
		return refused.Message
	}
	t.Fatal("the stream ended without a word")
	return ""
}

// Clients that the daemon has no PID for, since its container has a PID namespace of its
// own, share the limit of a process with the others of their user.
func TestClientsOutsideOfThePIDNamespace(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"),
		"--socket-mode", "0666", "--max-subscribers-per-process", "2")
	ownPIDs(cmd)
	if out, err := func() ([]byte, error) {
		try := exec.Command(binary, "version")
		ownPIDs(try)
		return try.CombinedOutput()
	}(); err != nil {
		t.Skipf("no PID namespace can be made here: %v %s", err, out)
	}
	d := startCommand(t, dir, cmd)
	d.mkdir(t)
	syncUp(t, d.watch(t, client.Options{}))
	syncUp(t, d.watch(t, client.Options{}))
	status, err := d.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Subscribers {
		if s.PID != 0 {
			t.Fatalf("the daemon has PID %d for this test", s.PID)
		}
	}
	if refusal := d.refusedWatch(t); !strings.Contains(refusal, "too many subscribers: user ") {
		t.Error(refusal)
	}
	if line := d.firstLine(t, nil); !strings.Contains(line, "too many subscribers: user ") {
		t.Errorf("another process of the user was told %q", line)
	}
	if os.Geteuid() != 0 {
		return // and can be no other user
	}
	if line := d.firstLine(t, &syscall.Credential{Uid: 65534, Gid: 65534}); !strings.Contains(line, `"op":`) {
		t.Errorf("a process of another user was told %q", line)
	}
}

// firstLine returns what "podconfigd watch" prints first, as that user.
func (d *daemon) firstLine(t *testing.T, user *syscall.Credential) string {
	t.Helper()
	watch := exec.Command(binary, "watch", "--socket", d.socket, "-o", "json")
	watch.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	watch.Stdout, watch.Stderr = write, write
	err = watch.Start()
	_ = write.Close()
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("the source tree is not for user %d: %v", user.Uid, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}
