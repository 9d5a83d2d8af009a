package smallfile

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	for _, mode := range []os.FileMode{0, 0o644, 0o666} { // others could have locked a wider one
		if mode != 0 {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("flags %x, %v: a child process keeps the lock", flags, err)
		}
		if _, err := Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("locked twice: %v", err)
		}
		_ = f.Close()
	}
}

// What another user may have put in the place of the file is neither followed nor waited for.
func TestLockRefuses(t *testing.T) {
	foreign := func(name string) error {
		return errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, 7, 8))
	}
	for what, put := range map[string]func(name, other string) error{
		"a link":                      func(name, other string) error { return os.Symlink(other, name) },
		"a link to nothing":           func(name, other string) error { return os.Symlink(other+"2", name) },
		"a second name":               func(name, other string) error { return os.Link(other, name) },
		"a FIFO":                      func(name, _ string) error { return unix.Mkfifo(name, 0o600) },
		"a file of another user":      func(name, _ string) error { return foreign(name) },
		"a socket":                    listen,
		"a directory":                 func(name, _ string) error { return os.Mkdir(name, 0o700) },
		"a device that can be locked": func(name, _ string) error { return unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := testutil.ShortDir(t)
			name, other := filepath.Join(dir, "lock"), filepath.Join(dir, "other")
			if err := os.WriteFile(other, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := put(name, other); errors.Is(err, os.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			f, err := Lock(name)
			if !errors.Is(err, errForeign) && !errors.Is(err, unix.EISDIR) {
				t.Errorf("got %v, want %v", err, errForeign)
			}
			if err == nil {
				_ = f.Close()
			}
			if info, err := os.Stat(other); err != nil || info.Mode() != 0o644 {
				t.Errorf("the file behind the link has mode %v, %v", info.Mode(), err)
			}
			if _, err := os.Lstat(other + "2"); !errors.Is(err, os.ErrNotExist) {
				t.Error("a file was created through a link")
			}
		})
	}
}

func listen(name, _ string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		err = l.Close()
	}
	return err
}

// A daemon that runs as root now has the directory of one that ran as another user.
func TestLockInADirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, 7, 8), os.Chown(dir, 7, 8)); err != nil {
		t.Fatal(err)
	}
	f, err := Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
