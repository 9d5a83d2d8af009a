package manifests

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writerCount is how many processes have a file open for writing, as far as that
// can be known.
type writerCount int

const (
	unknownWriters writerCount = iota
	noWriters
	someWriters
)

// writers tells whether anyone has the file open for writing. fsnotify does not
// pass IN_CLOSE_WRITE on, but a read lease is granted only on a file that nobody
// has open for writing, so one is taken and given back at once. That needs the
// file's owner or CAP_LEASE, and a local file system; elsewhere it isn't known.
func writers(f *os.File) writerCount {
	conn, err := f.SyscallConn()
	if err != nil {
		return unknownWriters
	}
	count := unknownWriters
	err = conn.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		switch {
		case err == nil:
			count = noWriters
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // closing the file gives it back too
		case errors.Is(err, unix.EAGAIN):
			count = someWriters
		}
	})
	if err != nil {
		return unknownWriters
	}
	return count
}
