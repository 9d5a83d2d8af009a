package manifests

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func inodeOf(info fs.FileInfo) inode {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}
	}
	return inode{dev: uint64(st.Dev), ino: st.Ino, ctime: time.Unix(st.Ctim.Unix()), uid: st.Uid, gid: st.Gid}
}

// writers returns whether a process has the file open for writing. fsnotify does not
// deliver IN_CLOSE_WRITE. But a read lease is granted only on a file that nobody has open
// for writing. So writers takes one and releases it at once. This needs the file's owner
// or CAP_LEASE, and a local file system. Otherwise the answer is unknown.
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
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // closing the file releases it too
		case errors.Is(err, unix.EAGAIN):
			count = someWriters
		}
	})
	if err != nil {
		return unknownWriters
	}
	return count
}
