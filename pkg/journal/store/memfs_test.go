package store

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// memFS is a file system in memory. What has been written stays: it is the page cache
// after a kill -9.
type memFS struct {
	mu     sync.Mutex
	files  map[string]*[]byte
	dirs   map[string]bool
	locked map[string]bool
	// open is how many files are open for writing.
	open int
	// fault, if set, is called before each operation, without the lock. If it returns an error, the
	// operation fails. A failed write keeps its first n bytes.
	fault func(op, name string, size int) (n int, err error)
}

func newMemFS() *memFS {
	return &memFS{files: make(map[string]*[]byte), dirs: make(map[string]bool), locked: make(map[string]bool)}
}

// clone returns what another process finds after this one was killed.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	other := newMemFS()
	maps.Copy(other.dirs, m.dirs)
	for name, data := range m.files {
		other.files[name] = new(slices.Clone(*data))
	}
	return other
}

func (m *memFS) before(op, name string, size int) (int, error) {
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	if fault == nil {
		return size, nil
	}
	return fault(op, name, size)
}

func (m *memFS) setFault(fault func(op, name string, size int) (int, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

func (m *memFS) MkdirAll(dir string) error {
	if _, err := m.before("mkdir", dir, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirs[dir] = true
	return nil
}

func (m *memFS) List(dir string) ([]string, error) {
	if _, err := m.before("list", dir, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[dir] {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	var names []string
	for name := range m.files {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

func (m *memFS) Create(name string) (Appender, error) {
	if _, err := m.before("create", name, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[filepath.Dir(name)] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if m.files[name] != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	m.files[name] = new([]byte)
	m.open++
	return &memAppender{m, name, m.files[name]}, nil
}

func (m *memFS) Open(name string) (io.ReadCloser, int64, error) {
	if _, err := m.before("open", name, 0); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.files[name]
	if data == nil {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	copied := slices.Clone(*data)
	return io.NopCloser(bytes.NewReader(copied)), int64(len(copied)), nil
}

func (m *memFS) Rename(from, to string) error {
	if _, err := m.before("rename", from, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[to] = m.files[from]
	delete(m.files, from)
	return nil
}

func (m *memFS) Remove(name string) error {
	if _, err := m.before("remove", name, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, name)
	return nil
}

func (m *memFS) removeAll(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dirs, dir)
	maps.DeleteFunc(m.files, func(name string, _ *[]byte) bool { return strings.HasPrefix(name, dir+"/") })
}

func (m *memFS) SyncDir(dir string) error {
	_, err := m.before("syncdir", dir, 0)
	return err
}

func (m *memFS) Lock(name string) (io.Closer, error) {
	if _, err := m.before("lock", name, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] && m.files[name] != nil {
		return nil, ErrLocked
	}
	m.locked[name] = true
	if m.files[name] == nil {
		m.files[name] = new([]byte)
	}
	return closer(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locked, name)
		return nil
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }

type memAppender struct {
	fs   *memFS
	name string
	data *[]byte
}

func (a *memAppender) Write(p []byte) (int, error) {
	n, err := a.fs.before("write", a.name, len(p))
	a.fs.mu.Lock()
	defer a.fs.mu.Unlock()
	*a.data = append(*a.data, p[:n]...)
	return n, err
}

func (a *memAppender) Sync() error {
	_, err := a.fs.before("sync", a.name, 0)
	return err
}

func (a *memAppender) Close() error {
	a.fs.mu.Lock()
	defer a.fs.mu.Unlock()
	a.fs.open--
	return nil
}

// errNoSpace is what a full disk says.
var errNoSpace = &fs.PathError{Op: "write", Path: "journal", Err: syscall.ENOSPC}
