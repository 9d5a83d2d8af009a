package store

import (
	"io"
	"runtime"
)

// oneThread is the file system of the operating system, with all system calls in one thread:
// strace counts the calls of each thread.
type oneThread chan func()

func newOneThread() oneThread {
	f := make(oneThread)
	go func() {
		runtime.LockOSThread()
		for call := range f {
			call()
		}
	}()
	return f
}

func (f oneThread) end() { close(f) }

// do runs a call in the thread.
func (f oneThread) do(call func()) {
	done := make(chan struct{})
	f <- func() { call(); close(done) }
	<-done
}

func (f oneThread) MkdirAll(dir string) (err error) {
	f.do(func() { err = OS.MkdirAll(dir) })
	return err
}

func (f oneThread) List(dir string) (names []string, err error) {
	f.do(func() { names, err = OS.List(dir) })
	return names, err
}

func (f oneThread) Create(name string) (a Appender, err error) {
	f.do(func() { a, err = OS.Create(name) })
	if err != nil {
		return nil, err
	}
	return oneThreadFile{oneThreadCloser{f, a}, nil, a}, nil
}

func (f oneThread) Open(name string) (r io.ReadCloser, size int64, err error) {
	f.do(func() { r, size, err = OS.Open(name) })
	if err != nil {
		return nil, 0, err
	}
	return oneThreadFile{oneThreadCloser{f, r}, r, nil}, size, nil
}

func (f oneThread) Rename(from, to string) (err error) {
	f.do(func() { err = OS.Rename(from, to) })
	return err
}

func (f oneThread) Remove(name string) (err error) {
	f.do(func() { err = OS.Remove(name) })
	return err
}

func (f oneThread) SyncDir(dir string) (err error) {
	f.do(func() { err = OS.SyncDir(dir) })
	return err
}

func (f oneThread) Lock(name string) (lock io.Closer, err error) {
	f.do(func() { lock, err = OS.Lock(name) })
	if err != nil {
		return nil, err
	}
	return oneThreadCloser{f, lock}, nil
}

type oneThreadCloser struct {
	fs oneThread
	of io.Closer
}

func (c oneThreadCloser) Close() (err error) {
	c.fs.do(func() { err = c.of.Close() })
	return err
}

// oneThreadFile is open for reading or for appending.
type oneThreadFile struct {
	oneThreadCloser

	reader   io.Reader
	appender Appender
}

func (a oneThreadFile) Read(into []byte) (n int, err error) {
	a.fs.do(func() { n, err = a.reader.Read(into) })
	return n, err
}

func (a oneThreadFile) Write(p []byte) (n int, err error) {
	a.fs.do(func() { n, err = a.appender.Write(p) })
	return n, err
}

func (a oneThreadFile) Sync() (err error) {
	a.fs.do(func() { err = a.appender.Sync() })
	return err
}
