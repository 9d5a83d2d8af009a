package metamorphic

import (
	"sync/atomic"
	"syscall"

	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// disk is the file system of the log. While it fails, a write leaves the first half of its bytes.
type disk struct {
	store.FS
	failing atomic.Bool
}

func newDisk() *disk { return &disk{FS: store.OS} }

func (d *disk) Create(name string) (store.Appender, error) {
	if d.failing.Load() {
		return nil, syscall.ENOSPC
	}
	f, err := d.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &file{f, d}, nil
}

// SyncDir does nothing: a kill of the process leaves what was written.
func (*disk) SyncDir(string) error { return nil }

type file struct {
	store.Appender
	disk *disk
}

func (f *file) Write(data []byte) (int, error) {
	if !f.disk.failing.Load() {
		return f.Appender.Write(data)
	}
	n, _ := f.Appender.Write(data[:len(data)/2])
	return n, syscall.ENOSPC
}

func (f *file) Sync() error {
	if f.disk.failing.Load() {
		return syscall.EIO
	}
	return nil
}
