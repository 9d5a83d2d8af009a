package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The file never has a wider mode than it gets, and gets it whatever the umask is.
func TestModesOfSockets(t *testing.T) {
	dir := testutil.ShortDir(t)
	umask := unix.Umask(0o022)
	unix.Umask(umask)
	for _, mode := range []fs.FileMode{0o600, 0o606, 0o660, 0o666, 0o777} {
		temp := filepath.Join(dir, fmt.Sprintf("%o", mode))
		l, err := bind(t.Context(), temp, mode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if info, err := os.Lstat(temp); err != nil || info.Mode() != fs.ModeSocket|mode&^fs.FileMode(umask) {
			t.Errorf("%o after bind: %v, %v", mode, info.Mode(), err)
		}
		if _, err := claim(temp, mode, -1, -1); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(temp); err != nil || info.Mode() != fs.ModeSocket|mode {
			t.Errorf("%o in the end: %v, %v", mode, info.Mode(), err)
		}
	}
}

// A user who can write to the directory puts something else in the place of the temporary socket.
func TestClaimFollowsNoLink(t *testing.T) {
	for what, put := range map[string]func(name, file, socket string) error{
		"a link to a file":          func(name, file, _ string) error { return os.Symlink(file, name) },
		"a link to a socket":        func(name, _, socket string) error { return os.Symlink(socket, name) },
		"a second name of a file":   func(name, file, _ string) error { return os.Link(file, name) },
		"a second name of a socket": func(name, _, socket string) error { return os.Link(socket, name) },
		"a socket of another user":  foreignSocket,
	} {
		t.Run(what, func(t *testing.T) {
			dir := testutil.ShortDir(t)
			name, file, socket := filepath.Join(dir, "temp"), filepath.Join(dir, "file"), filepath.Join(dir, "socket")
			if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mknod(socket, unix.S_IFSOCK|0o600, 0)); err != nil {
				t.Fatal(err)
			}
			if err := put(name, file, socket); errors.Is(err, fs.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			gid := os.Getegid()
			if os.Geteuid() == 0 {
				gid = 1234
			}
			if _, err := claim(name, 0o666, -1, gid); !errors.Is(err, errNotOurs) {
				t.Errorf("got %v, want %v", err, errNotOurs)
			}
			for _, path := range []string{file, socket} {
				var stat unix.Stat_t
				if err := unix.Lstat(path, &stat); err != nil || stat.Mode&0o777 != 0o600 || int(stat.Gid) != os.Getegid() {
					t.Errorf("%s: mode %o, group %d, %v", path, stat.Mode, stat.Gid, err)
				}
			}
		})
	}
}

func foreignSocket(name, _, _ string) error {
	return errors.Join(unix.Mknod(name, unix.S_IFSOCK|0o600, 0), os.Chown(name, 7, 8))
}

// Files that other parts of the process create in the meantime get their own modes: the umask stays.
func TestListenLeavesTheUmask(t *testing.T) {
	dir := testutil.ShortDir(t)
	umask := unix.Umask(0o022)
	unix.Umask(umask)
	want := fs.FileMode(0o666 &^ umask)
	var done atomic.Bool
	created := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && !done.Load(); i++ {
			err = createsWith(filepath.Join(dir, strconv.Itoa(i)), want)
		}
		created <- err
	}()
	for range 200 {
		l, err := Listen(t.Context(), ListenOptions{Path: filepath.Join(dir, "s.sock"), Mode: 0o660, Group: strconv.Itoa(os.Getegid())})
		if err != nil {
			t.Error(err)
			break
		}
		_ = l.Close()
	}
	done.Store(true)
	if err := <-created; err != nil {
		t.Error(err)
	}
}

func createsWith(name string, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode() != mode {
		err = fmt.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
	}
	return errors.Join(err, f.Close(), os.Remove(name))
}

// The group and the owner of the file are those of the options, and clients can connect.
func TestOwnersOfSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	l, err := Listen(t.Context(), ListenOptions{Path: path, Mode: 0o660, Group: "1234", uid: 65532 + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || stat.Uid != 65532 || stat.Gid != 1234 || stat.Mode != unix.S_IFSOCK|0o660 {
		t.Errorf("%+v, %v", stat, err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
