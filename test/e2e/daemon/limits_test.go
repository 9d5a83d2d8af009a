package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// ownPIDs makes the command run in its own PID namespace, as in a container.
func ownPIDs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
}

// refusedWatch opens a stream and returns the error.
func refusedWatch(t *testing.T, d *e2e.Daemon) string {
	t.Helper()
	for _, err := range d.Client.Updates(t.Context(), client.Options{Once: true}) {
		if err == nil {
			t.Fatal("the subscriber was admitted")
		}
		refused, ok := errors.AsType[*client.RefusedError](err)
		if !ok || refused.Code != 429 {
			t.Fatal(err)
		}
		return refused.Message
	}
	t.Fatal("the stream ended without an error")
	return ""
}

// If the daemon has its own PID namespace, as in a container, it knows no PIDs of other
// clients. Such clients of one user share the limit of a process.
func TestClientsOutsideOfThePIDNamespace(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(e2e.Binary, "--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"),
		"--socket-mode", "0666", "--max-subscribers-per-process", "2")
	ownPIDs(cmd)
	if out, err := func() ([]byte, error) {
		try := exec.Command(e2e.Binary, "version")
		ownPIDs(try)
		return try.CombinedOutput()
	}(); err != nil {
		t.Skipf("no PID namespace can be made here: %v %s", err, out)
	}
	d := e2e.StartCommand(t, dir, cmd)
	d.Mkdir(t)
	e2e.SyncUp(t, d.Watch(t, client.Options{}))
	e2e.SyncUp(t, d.Watch(t, client.Options{}))
	status, err := d.Client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Subscribers {
		if s.PID != 0 {
			t.Fatalf("the daemon has PID %d for this test", s.PID)
		}
	}
	if refusal := refusedWatch(t, d); !strings.Contains(refusal, "too many subscribers: user ") {
		t.Error(refusal)
	}
	if line := firstLine(t, d, nil); !strings.Contains(line, "too many subscribers: user ") {
		t.Errorf("another process of the user got %q", line)
	}
	if os.Geteuid() != 0 {
		return // and can't change the user
	}
	if line := firstLine(t, d, &syscall.Credential{Uid: 65534, Gid: 65534}); !strings.Contains(line, `"op":`) {
		t.Errorf("a process of another user got %q", line)
	}
}

// firstLine returns the first line of "podconfigctl watch", run as the user.
func firstLine(t *testing.T, d *e2e.Daemon, user *syscall.Credential) string {
	t.Helper()
	watch := exec.Command(e2e.Ctl, "watch", "--socket", d.Socket, "-o", "json")
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

// TestClientsLeaveTheSourcesDescriptors checks that clients can't use the file
// descriptors that the daemon needs to read its manifests, and that probes are answered.
func TestClientsLeaveTheSourcesDescriptors(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	args := []string{"-c", `ulimit -n 64 && exec "$0" "$@"`, e2e.Binary, "--pod-manifest-path", filepath.Join(dir, "manifests"),
		"--socket", filepath.Join(dir, "s"), "--hostname-override", "node1"}
	d := e2e.StartCommand(t, dir, exec.Command("sh", args...))
	d.Mkdir(t)
	stream := d.Watch(t, client.Options{})
	e2e.SyncUp(t, stream)
	testutil.Until(t, "the daemon says how many connections there may be", func() bool {
		return strings.Contains(d.Log.String(), `RLIMIT_NOFILE=64 connections=`)
	})
	for i := range 200 {
		conn, err := net.Dial("unix", d.Socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		// If it is closed already, it was one too many.
		_, _ = fmt.Fprintf(conn, "GET /v1alpha1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if i%50 == 49 {
			name := fmt.Sprintf("p%d", i)
			d.Put(t, name, "image")
			stream.Expect(t, "ADD "+name+"-node1")
		}
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		testutil.Eventually(t, func() error {
			transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", d.Socket)
			}}
			resp, err := (&http.Client{Transport: transport}).Get("http://localhost" + path)
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s", path, resp.Status)
			}
			return nil
		})
	}
	if refusal := refusedWatch(t, d); !strings.Contains(refusal, "too many connections: ") {
		t.Error(refusal)
	}
	if strings.Contains(d.Log.String(), "too many open files") {
		t.Error("the daemon ran out of descriptors")
	}
	status, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d descriptors are in use", len(status))
}
