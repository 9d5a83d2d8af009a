package socket

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/server/internal/servertest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// manager is a service manager that has a socket.
type manager struct {
	path string
	made *net.UnixListener
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(testutil.ShortDir(t), "s.sock")}
	var err error
	if m.made, err = net.ListenUnix("unix", &net.UnixAddr{Name: m.path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	m.made.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = m.made.Close() })
	if err := os.Chmod(m.path, 0o640); err != nil {
		t.Fatal(err)
	}
	return m
}

// pass returns the listener of a server that gets the socket.
func (m *manager) pass(t *testing.T) net.Listener {
	t.Helper()
	f, err := m.made.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	passed, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Adopt(t.Context(), ListenOptions{Path: m.path, Flag: "--socket", Mode: 0o600}, passed.(*net.UnixListener))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (m *manager) mode(t *testing.T) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(m.path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// The file of a socket of the service manager is neither changed nor removed.
func TestAnAdoptedSocketBelongsToTheServiceManager(t *testing.T) {
	m := newManager(t)
	l := m.pass(t).(*listener)
	if again, err := l.restore(t.Context()); again || err != nil {
		t.Errorf("restored what is there: %v, %v", again, err)
	}
	if mode := m.mode(t); mode != 0o640 {
		t.Errorf("the mode is %v", mode)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if mode := m.mode(t); mode != 0o640 {
		t.Errorf("after Close, the mode is %v", mode)
	}
}

// If its file is removed, the server makes a socket of its own, and removes that when it ends. The
// next server finds that the socket of the service manager has no file.
func TestAnAdoptedSocketWhoseFileIsGone(t *testing.T) {
	m := newManager(t)
	for _, stale := range []bool{false, true} {
		l := m.pass(t).(*listener)
		if err := os.Remove(m.path); err != nil {
			t.Fatal(err)
		}
		if again, err := l.restore(t.Context()); !stale && (!again || err != nil) {
			t.Fatalf("restored: %v, %v", again, err)
		}
		if mode := m.mode(t); !stale && mode != 0o640 {
			t.Errorf("the mode is %v", mode)
		}
		_ = l.Close()
		if _, err := os.Lstat(m.path); !os.IsNotExist(err) {
			t.Errorf("after Close: %v", err)
		}
		if stale { // of a server that was killed
			if err := servertest.LeftOver(m.path); err != nil {
				t.Fatal(err)
			}
		}
		l = m.pass(t).(*listener)
		if mode := m.mode(t); mode != 0o600 {
			t.Errorf("the mode of the new socket is %v", mode)
		}
		conn, err := net.Dial("unix", m.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
}
