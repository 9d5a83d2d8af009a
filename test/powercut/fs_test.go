package powercut

import (
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// adapter makes a pebble file system one of the store. before is called at each operation.
type adapter struct {
	*vfs.MemFS

	before func()
}

func (a adapter) MkdirAll(dir string) error {
	if err := a.MemFS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return a.SyncDir("/")
}

func (a adapter) Create(name string) (store.Appender, error) {
	a.before()
	if _, err := a.Stat(name); err == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	f, err := a.MemFS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &file{File: f, before: a.before}, nil
}

func (a adapter) Open(name string) (io.ReadCloser, int64, error) {
	f, err := a.MemFS.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (a adapter) Rename(from, to string) error {
	a.before()
	return a.MemFS.Rename(from, to)
}

func (a adapter) Remove(name string) error {
	a.before()
	return a.MemFS.Remove(name)
}

func (a adapter) SyncDir(dir string) error {
	a.before()
	f, err := a.OpenDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// file lets one writer or syncer in at a time, as pebble's file asks for.
type file struct {
	vfs.File

	mu     sync.Mutex
	before func()
}

func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before()
	return f.File.Write(append([]byte(nil), p...))
}

func (f *file) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before()
	return f.File.Sync()
}
