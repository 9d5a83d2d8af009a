//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// noBlock and noFollow make opening a FIFO return at once, and opening a link an error.
const (
	noBlock  = unix.O_NONBLOCK
	noFollow = unix.O_NOFOLLOW
)

func isLinkOrSocket(err error) bool { return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) }

// lock locks a file until it is closed. It returns ErrLocked if another process has the lock.
func lock(name string) (*os.File, error) {
	f, err := smallfile.Lock(name)
	if errors.Is(err, smallfile.ErrLocked) {
		err = fmt.Errorf("locking %s: %w", name, ErrLocked)
	}
	return f, err
}
