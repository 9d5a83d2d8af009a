package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// FS is the file system of a log. Names are paths. The error for a missing file is
// fs.ErrNotExist.
type FS interface {
	// MkdirAll creates a directory that only its owner can enter, and its parents, and
	// makes them durable.
	MkdirAll(dir string) error
	// List returns the names of the entries of a directory.
	List(dir string) ([]string, error)
	// Create creates a file for appending that only its owner can read. It fails if the
	// file exists.
	Create(name string) (Appender, error)
	// Open opens a file for reading, and also returns its size.
	Open(name string) (io.ReadCloser, int64, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the creations, renames and removals in a directory durable.
	SyncDir(dir string) error
	// Lock locks a file until the result is closed. It creates the file if necessary. If
	// another process has the lock, the error is ErrLocked.
	Lock(name string) (io.Closer, error)
}

// Appender is a file for appending.
type Appender interface {
	io.WriteCloser
	Sync() error
}

// ErrLocked means that another process uses the directory.
var ErrLocked = errors.New("another process uses the directory")

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (o osFS) MkdirAll(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(filepath.Clean(dir))
	if err := o.MkdirAll(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(above)
}

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Create(name string) (Appender, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

func (osFS) Open(name string) (io.ReadCloser, int64, error) {
	// A file that somebody else put there may be a FIFO.
	f, err := os.OpenFile(name, os.O_RDONLY|noBlock|noFollow, 0)
	if isLinkOrSocket(err) {
		err = fmt.Errorf("%w: %w", errForeign, err)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", errForeign, name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := smallfile.Lock(name)
	switch {
	case errors.Is(err, smallfile.ErrLocked):
		return nil, fmt.Errorf("locking %s: %w", name, ErrLocked)
	case err != nil:
		return nil, err // and no file in the interface
	}
	return f, nil
}
