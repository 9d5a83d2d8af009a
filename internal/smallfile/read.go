// Package smallfile reads the files that configure the daemon: credentials, a kubeconfig, a
// number. A file of another kind must not block the daemon, or fill its memory.
package smallfile

import (
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
