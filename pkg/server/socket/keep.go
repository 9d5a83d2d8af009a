package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// keepPeriod is the interval at which the socket file is checked.
const keepPeriod = time.Second

// listener listens on a socket, creates the socket file again if it is removed, and removes it
// when the listener is closed.
type listener struct {
	opts ListenOptions

	mu     sync.Mutex // guards what follows
	socket *socket
	closed bool
}

// Addr returns the socket's path.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.opts.Path, Net: "unix"} }

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		socket := l.socket
		l.mu.Unlock()
		conn, err := socket.Accept()
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, net.ErrClosed) && l.replaced(socket) {
			continue
		}
		if op, ok := errors.AsType[*net.OpError](err); ok {
			op.Addr = l.Addr() // not the temporary name of the socket
		}
		return nil, err
	}
}

// replaced reports whether the listener has another socket now.
func (l *listener) replaced(socket *socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && l.socket != socket
}

// Close stops listening. It removes the socket file unless another file has replaced it.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.socket.remove(l.opts.Path)
}

// remove closes the socket, and removes its file if it is still at the path and no other process
// has the socket.
func (s *socket) remove(path string) error {
	if !s.passed && s.at(path) {
		_ = os.Remove(path) // if it stays, clients get "connection refused"
	}
	return s.Close()
}

// at reports whether the path is the socket file. No other file can get its inode while the
// socket is open.
func (s *socket) at(path string) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, s.file)
}

// Keep watches the file of a socket of Listen or Adopt until the context is done, and returns the
// cause of the context. If the file is removed, or replaced by a socket that no process serves, Keep
// creates it again and calls made. For another listener, it returns nil at once.
func Keep(ctx context.Context, l net.Listener, made func()) error {
	if kept, ok := l.(*listener); ok {
		return kept.keep(ctx, made)
	}
	return nil
}

func (l *listener) keep(ctx context.Context, made func()) error {
	logger := klog.FromContext(ctx)
	for logged := ""; ; {
		if err := await.For(ctx, keepPeriod); err != nil {
			return err
		}
		again, err := l.restore(ctx)
		switch {
		case err != nil && ctx.Err() == nil && err.Error() != logged:
			logged = err.Error()
			logger.Error(err, "The socket file is gone and could not be created again; clients can't connect; retrying", "socket", l.opts.Path)
		case err == nil:
			logged = ""
		}
		if again {
			logger.Info("The socket file was gone; created it again", "socket", l.opts.Path)
			made()
		}
	}
}

// restore creates the socket file again if it is gone.
func (l *listener) restore(ctx context.Context) (again bool, err error) {
	l.mu.Lock()
	old := l.socket
	l.mu.Unlock()
	if old.at(l.opts.Path) {
		return false, nil
	}
	made, err := listen(ctx, l.opts)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, made.remove(l.opts.Path)
	}
	l.socket = made
	_ = old.Close() // open connections stay
	return true, nil
}

const (
	// lockAttempts is how often lockSocket tries to get the lock, which another daemon has for
	// milliseconds. lockRetry is the interval between attempts.
	lockAttempts = 500
	lockRetry    = 10 * time.Millisecond
)

// IsLock reports whether a file in the directory of a socket can be the lock of lockSocket.
func IsLock(name string) bool {
	return len(name) >= len(".x"+lockSuffix) && name[0] == '.' && filepath.Ext(name) == lockSuffix
}

const lockSuffix = ".lock"

// lockSocket prevents other daemons from creating the socket until unlock is called. The lock is a
// file beside the socket that no other user can open. unlock removes it.
func lockSocket(ctx context.Context, socket string) (unlock func(), err error) {
	dir, base := filepath.Split(socket)
	name := filepath.Join(dir, "."+base+lockSuffix)
	for attempt := 1; ; attempt++ {
		lock, err := smallfile.Lock(name)
		switch {
		case err == nil && isAt(lock, name):
			return func() {
				_ = os.Remove(name) // if it stays, the next daemon takes it
				_ = lock.Close()
			}, nil
		case err == nil:
			_ = lock.Close() // the daemon that had the lock has removed it
		case !errors.Is(err, smallfile.ErrLocked):
			return nil, err
		}
		err = smallfile.ErrLocked
		if attempt < lockAttempts {
			err = await.For(ctx, lockRetry)
		}
		if err != nil {
			return nil, fmt.Errorf("waiting for the lock: %w", err)
		}
	}
}

func isAt(file *os.File, name string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(ours, there)
}
