//go:build unix

package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noBlock and noFollow make opening a FIFO return at once, and opening a link an error.
const (
	noBlock  = unix.O_NONBLOCK
	noFollow = unix.O_NOFOLLOW
)

func isLinkOrSocket(err error) bool { return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) }

// lock locks a file until it is closed. It returns ErrLocked if another process has the lock.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
