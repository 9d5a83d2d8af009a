// Package smallfile reads, replaces and locks the small files of the daemon: credentials, a kubeconfig, a
// number. A file of another kind must not block the daemon, or fill its memory.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// MaxLength is the largest accepted length.
	MaxLength = 1 << 20
	// patience is how long a read may take. It counts only for files that block readers
	// until there is more, as some in /proc do.
	patience = time.Second
)

// ErrLocked means that another process has the lock, or has removed the file just now.
var ErrLocked = errors.New("another process has the lock")

// Read returns the contents of a regular file of at most [MaxLength] bytes.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a regular file, got %s", path, kind(info.Mode()))
	}
	_ = f.SetReadDeadline(time.Now().Add(patience)) // fails for files that never block
	data, err := io.ReadAll(io.LimitReader(f, MaxLength+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxLength {
		return nil, fmt.Errorf("%s: expected at most %d bytes", path, MaxLength)
	}
	return data, nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return mode.Type().String()
}

// NewSuffix comes after the name of a file while Replace writes it.
const NewSuffix = ".new"

// Replace replaces a file, which only its owner can read. At any time, a reader finds either the previous contents or
// the whole text. A link in its place is replaced, not followed.
func Replace(path, text string) error {
	temp := path + NewSuffix
	err := writeNew(temp, text)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
	}
	return err
}

// writeNew writes a new file. If there is a file or a link in its place, for example from an earlier run, it is
// replaced.
func writeNew(name, text string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
