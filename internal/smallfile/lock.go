//go:build unix

package smallfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// errForeign means that others may be able to lock the file.
var errForeign = errors.New("it is not a regular file of this user with one name: remove it")

// Lock locks a file that no other user can open, until the result is closed. It creates the file if necessary. It does not wait:
// if another process has the lock, the error is ErrLocked.
//
// The file gets the mode 0600. It is an error if there is something else in its place: a link, a
// file with a second name, or a file of another user. The user that the directory belongs to may
// have the file: that user can replace it anyway.
func Lock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link or a socket
		err = errForeign
	}
	if err == nil {
		if err = take(f); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return f, nil
}

func take(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Nlink == 0 { // whoever had the lock has removed the file
		return ErrLocked
	}
	if !ok || !info.Mode().IsRegular() || stat.Nlink != 1 {
		return errForeign
	}
	if int(stat.Uid) != os.Geteuid() {
		dir, err := os.Stat(filepath.Dir(f.Name()))
		if err != nil {
			return err
		}
		if above, ok := dir.Sys().(*syscall.Stat_t); !ok || above.Uid != stat.Uid {
			return errForeign
		}
	} else if info.Mode().Perm() != 0o600 {
		if err := f.Chmod(0o600); err != nil {
			return err
		}
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
