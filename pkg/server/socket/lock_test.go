package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// errEnded is the cause with which tests end a context.
var errEnded = errors.New("the test has ended")

// lockDirectory locks a directory as every user can who can open it, until the test ends.
func lockDirectory(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
}

// A user who holds the lock of the directory stops no start.
func TestListenWhileTheDirectoryIsLocked(t *testing.T) {
	dir := testutil.ShortDir(t)
	lockDirectory(t, dir)
	path := filepath.Join(dir, "s.sock")
	if _, err := listenAt(t, path); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// The lock is a file of its own. If another daemon has it, Listen waits until its context is done.
func TestListenWhileAnotherDaemonListens(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	unlock, err := lockSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(filepath.Dir(path), ".s.sock.lock")
	if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 || !IsLock(filepath.Base(name)) {
		t.Errorf("the lock: %v, %v", info, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	_, err = Listen(ctx, ListenOptions{Path: path, Mode: 0o600})
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "waiting for the lock") {
		t.Error(err)
	}
	unlock()
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock stays: %v", err)
	}
	if _, err := listenAt(t, path); err != nil {
		t.Error(err)
	}
}

// A daemon that has the lock for a moment is waited for. One that keeps it is not.
func TestTheLockIsWaitedFor(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	synctest.Test(t, func(t *testing.T) {
		unlock, err := lockSocket(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lockSocket(t.Context(), path); !errors.Is(err, smallfile.ErrLocked) {
			t.Errorf("got %v, want %v", err, smallfile.ErrLocked)
		}
		time.AfterFunc(lockRetry/2, unlock)
		unlock, err = lockSocket(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	})
}

// A file of another user, or a link, in the place of the lock is refused. The file of a daemon that
// was killed is not.
func TestFilesInPlaceOfTheLock(t *testing.T) {
	dir := testutil.ShortDir(t)
	path, name, other := filepath.Join(dir, "s.sock"), filepath.Join(dir, ".s.sock.lock"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o644), os.Symlink(other, name)); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt(t, path); err == nil || !strings.HasSuffix(err.Error(), "with one name: remove it") {
		t.Errorf("a link: %v", err)
	}
	if info, err := os.Lstat(other); err != nil || info.Mode() != 0o644 {
		t.Errorf("what the link refers to: %v, %v", info, err)
	}
	if err := errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt(t, path); err != nil {
		t.Errorf("after a kill: %v", err)
	}
}

// One of an earlier version that has its socket keeps it, also if a user holds the lock.
func TestAnEarlierVersionKeepsItsSocket(t *testing.T) {
	dir := testutil.ShortDir(t)
	lockDirectory(t, dir)
	path := filepath.Join(dir, "s.sock")
	former, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	if _, err := listenAt(t, path); !errors.Is(err, errSocketInUse) {
		t.Errorf("got %v, want %v", err, errSocketInUse)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// Between opening the lock and locking it, the daemon that had it removed it.
func TestALockThatIsRemoved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	file, err := smallfile.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !isAt(file, name) {
		t.Error("it is there")
	}
	if err := errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if isAt(file, name) {
		t.Error("another file is there")
	}
}
