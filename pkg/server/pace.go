package server

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// pace makes a cursor wait for its client. What a client has not read is then in the buffer of
// its socket, which the kernel bounds, and not in the daemon.
type pace struct {
	conn *admittedConn
	raw  syscall.RawConn
	// call is true for a call of gRPC, which can end while its connection stays.
	call bool
	// buffer is the size of the socket's buffer; 0 until it is known.
	buffer int
	// handed is how many bytes gRPC was given since written was the number of bytes that the
	// connection had written. net/http writes at once.
	handed, written int64
	// pending is how many of these bytes gRPC has not written.
	pending int64
	// look sets enough to what writable returns. write is writable. They are here so that a
	// call allocates nothing.
	look   func(fd uintptr)
	enough bool
	write  func(fd uintptr) bool
}

// newPace returns the pace of a connection. It does not wait for a connection that is nil or
// not a unix socket.
func newPace(conn *admittedConn) *pace {
	p := &pace{}
	p.write = p.writable
	p.look = func(fd uintptr) { p.enough = p.writable(fd) }
	if conn == nil {
		return p
	}
	if socket, ok := conn.Conn.(*net.UnixConn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			p.conn, p.raw, p.written = conn, raw, conn.bytesWritten()
		}
	}
	return p
}

func httpPace(r *http.Request) *pace { return newPace(connFrom(r.Context())) }

func grpcPace(ctx context.Context) *pace {
	p := newPace(grpcInfo(ctx).conn)
	p.call = true
	return p
}

// drained waits until everything was written, and at most a quarter of the socket's buffer is in
// use. Then the next batch of a cursor fits into the buffer, and its write does not block. drained
// returns an error if the connection is closed, its write deadline has passed, or the context of
// a gRPC call is done. An HTTP request ends with its connection. With gRPC, drained checks only
// after each BatchSize.
//
// While drained waits for the client, nothing else can write to the connection. gRPC writes in its
// own goroutine, and holds a buffer of grpcWriteBuffer until it has written. So drained first
// waits until gRPC has written.
func (p *pace) drained(ctx context.Context) error {
	if p.raw == nil || p.handed > 0 && p.handed < view.BatchSize {
		return nil
	}
	if p.pending = p.written + p.handed - p.conn.bytesWritten(); p.pending > 0 {
		if err := p.raw.Control(p.look); err != nil || p.enough {
			return p.conn.named(err)
		}
	}
	written, err := p.conn.flush(ctx, p.written+p.handed)
	p.written, p.handed, p.pending = written, 0, 0
	if err != nil {
		return err
	}
	if !p.call {
		return p.conn.named(p.raw.Write(p.write))
	}
	if err := p.raw.Control(p.look); err != nil || p.enough {
		return p.conn.named(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.raw.Write(p.write) }() // it ends with the connection at the latest
	select {
	case err := <-done:
		return p.conn.named(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writable reports whether at most a quarter of the buffer is in use, or will be once what is
// pending is written. A quarter is when the kernel reports a unix socket as writable.
func (p *pace) writable(fd uintptr) bool {
	if p.buffer == 0 {
		buffer, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil {
			return true // the next write returns the error
		}
		p.buffer = buffer
	}
	unread, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return err != nil || 4*(unread+int(p.pending)) <= p.buffer
}

func (c *admittedConn) bytesWritten() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// flush waits until so many bytes were written, and returns how many were. It returns an error
// if the connection is closed or the context is done.
func (c *admittedConn) flush(ctx context.Context, bytes int64) (written int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written >= bytes {
		return c.written, nil
	}
	stop := context.AfterFunc(ctx, c.wake)
	defer stop()
	for c.written < bytes {
		switch {
		case c.closed:
			return c.written, net.ErrClosed
		case ctx.Err() != nil:
			return c.written, context.Cause(ctx)
		}
		c.flushed.Wait()
	}
	return c.written, nil
}

// wake makes flush look again.
func (c *admittedConn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed.Broadcast()
}

// httpClient returns the client of an HTTP request, and the Drained of its cursor.
func httpClient(r *http.Request) (journal.Client, func(context.Context) error) {
	return peerFrom(r.Context()).client(r.UserAgent()), httpPace(r).drained
}
