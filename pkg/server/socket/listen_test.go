package socket

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func listenAt(t *testing.T, path string) (net.Listener, error) {
	t.Helper()
	l, err := Listen(t.Context(), ListenOptions{Path: path, Flag: "--socket", Mode: 0o660})
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

func TestListenMakesTheSocket(t *testing.T) {
	dir := testutil.ShortDir(t)
	path := filepath.Join(dir, "sub", "s.sock")
	group := strconv.Itoa(os.Getegid())
	l, err := Listen(t.Context(), ListenOptions{Path: path, Flag: "--socket", Mode: 0o606, Group: group})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o606 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	if len(entries) != 1 {
		t.Errorf("%d files beside the socket", len(entries)-1)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file after Close: %v", err)
	}
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	if _, err := listenAt(t, path); err != nil {
		t.Error(err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := testutil.ShortDir(t)
	served := filepath.Join(dir, "served")
	if _, err := listenAt(t, served); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, path, group, want string }{
		{"a socket that is served", served, "", "another process is serving it; stop it or choose another path with --socket"},
		{"a file", file, "", "not a socket; move it away"},
		{"a directory", dir, "", "there is a directory of that name, and removing it: directory not empty; a container that mounts the path before there is a socket makes the directory: let the container mount " + filepath.Dir(dir)},
		{"a long path", filepath.Join(dir, strings.Repeat("x", 120)), "", "expected at most 107: choose another path with --socket"},
		{"a directory that takes no sockets", "/proc/s", "", "creating the socket /proc/s: locking /proc/.s.lock: "},
		{"a negative group", filepath.Join(dir, "s"), "-1", `the group "-1": expected the name of a group, or a number from 0 to 2147483647`},
		{"a group beyond the largest", filepath.Join(dir, "s"), "2147483648", `the group "2147483648": expected`},
		{"an unknown group", filepath.Join(dir, "s"), "no-such-group", "group: unknown group no-such-group: set another with --socket-group or socketGroup"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Listen(t.Context(), ListenOptions{Path: test.path, Flag: "--socket", Mode: 0o660, Group: test.group})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
				t.Errorf("got %v, want %q with the path", err, test.want)
			}
		})
	}
	if data, _ := os.ReadFile(file); string(data) != "precious" {
		t.Errorf("the file holds %q now", data)
	}
	if conn, err := net.Dial("unix", served); err != nil {
		t.Errorf("the served socket: %v", err)
	} else {
		_ = conn.Close()
	}
}

// A container that mounts the path of the socket before there is one makes an empty directory there.
func TestListenReplacesAnEmptyDirectory(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := listenAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	// The same while it is served.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	again, err := l.(*listener).restore(t.Context())
	if err != nil || !again {
		t.Errorf("%t, %v", again, err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}

// If many start on a stale socket at once, one gets it, and no live socket is removed.
func TestOneOfManyGetsTheSocket(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	if err := syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []net.Listener
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			l, err := Listen(t.Context(), ListenOptions{Path: path, Flag: "--socket", Mode: 0o660})
			if err != nil {
				if !errors.Is(err, errSocketInUse) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, l)
		})
	}
	wg.Wait()
	if len(got) != 1 {
		t.Errorf("%d of 20 got the socket", len(got))
	}
	for _, l := range got {
		_ = l.Close()
	}
}

// When a daemon ends, it does not remove the socket of its successor.
func TestCloseLeavesASuccessorsSocket(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	first, err := listenAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt(t, path); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the successor's socket: %v", err)
	}
}
