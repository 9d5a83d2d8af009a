package server

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// keepPeriod is how often a socket's file is looked for.
const keepPeriod = time.Second

// listener listens on a socket, makes the socket's file again when it is gone, and takes
// it away when it is closed.
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
			op.Addr = l.Addr() // and not the name under which the socket was made
		}
		return nil, err
	}
}

// replaced tells whether the listener has another socket now.
func (l *listener) replaced(socket *socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && l.socket != socket
}

// Close stops listening and removes the socket file, if it is still this one.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.socket.remove(l.opts.Path)
}

// remove closes the socket, and removes its file if that has the path still.
func (s *socket) remove(path string) error {
	if s.at(path) {
		_ = os.Remove(path) // without the file nobody can connect; with it nobody will be answered
	}
	return s.Close()
}

// at tells whether the path is the socket's file. Its inode is not given to another file
// while the socket is open.
func (s *socket) at(path string) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, s.file)
}

// keep makes the socket's file again whenever it is gone, or is another one that nobody
// serves, until the context is done. It calls made then, and returns the context's cause.
func (l *listener) keep(ctx context.Context, made func()) error {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(keepPeriod)
	defer ticker.Stop()
	for told := ""; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		again, err := l.restore(ctx)
		switch {
		case err != nil && ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			logger.Error(err, "The socket's file is gone and can't be made again: no client can connect until it can", "socket", l.opts.Path)
		case err == nil:
			told = ""
		}
		if again {
			logger.Info("The socket's file was gone, and is made again", "socket", l.opts.Path)
			made()
		}
	}
}

// restore makes the socket's file again if it is gone.
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
	_ = old.Close() // whoever is connected stays so
	return true, nil
}
