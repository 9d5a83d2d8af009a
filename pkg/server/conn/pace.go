package conn

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// Pace makes a cursor wait for its client. What a client has not read is then in the buffer of
// its socket, which the kernel bounds, and not in the daemon.
type Pace struct {
	conn *Conn
	raw  syscall.RawConn
	// tcp is true for a connection over TCP.
	tcp bool
	// call is true for a call of gRPC and for a stream of HTTP/2, which can end while its
	// connection stays. shared is true if others write to the connection too. Then the bytes that
	// it has written say nothing about this stream, and net/http writes at once.
	call, shared bool
	// buffer is the size of the socket's buffer; 0 until it is known.
	buffer int
	// written is the number of bytes that the connection had written when Drained returned last. handed is
	// the number of bytes that gRPC was given since then. net/http writes at once.
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
// neither a unix socket nor TCP.
func newPace(conn *Conn) *Pace {
	p := &Pace{}
	p.write = p.writable
	p.look = func(fd uintptr) { p.enough = p.writable(fd) }
	if conn == nil {
		return p
	}
	socket, ok := kernelConn(conn).(syscall.Conn)
	if !ok {
		return p
	}
	if raw, err := socket.SyscallConn(); err == nil {
		p.conn, p.raw, p.written = conn, raw, conn.bytesWritten()
		_, p.tcp = socket.(*net.TCPConn)
	}
	return p
}

// kernelConn returns the connection of the kernel below a connection.
func kernelConn(conn net.Conn) net.Conn {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = outer.NetConn()
	}
}

func httpPace(r *http.Request) *Pace {
	p := newPace(From(r.Context()))
	p.shared = deadlinesFrom(r.Context()) != nil
	p.call = p.shared
	return p
}

// CallPace returns the pace of a call of gRPC.
func CallPace(ctx context.Context) *Pace {
	p := newPace(From(ctx))
	p.call, p.shared = true, deadlinesFrom(ctx) != nil
	return p
}

// Drained waits until everything was written, and at most a quarter of the socket's buffer is in
// use. Then the next batch of a cursor fits into the buffer, and its write does not block. Drained
// returns an error if the connection is closed, its write deadline has passed, or the context of a
// gRPC call is done. An HTTP request ends with its connection. With gRPC, Drained checks only after
// each BatchSize.
//
// While Drained waits for the client, nothing else can write to the connection. gRPC writes in its
// own goroutine, and holds a buffer of grpcWriteBuffer until it has written. So Drained first waits
// until gRPC has written.
func (p *Pace) Drained(ctx context.Context) error {
	if p.raw == nil || p.handed > 0 && p.handed < view.BatchSize {
		return nil
	}
	if p.shared {
		p.handed = 0
		return p.waitWritable(ctx)
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
	return p.waitWritable(ctx)
}

// waitWritable waits until the connection is writable, or the context is done. One goroutine waits
// for all calls of a connection, so that calls that end leave nothing behind. It ends with the
// connection at the latest.
func (p *Pace) waitWritable(ctx context.Context) error {
	if err := p.raw.Control(p.look); err != nil || p.enough {
		return p.conn.named(err)
	}
	p.conn.mu.Lock()
	w := p.conn.waiting
	if w == nil {
		w = &writableWait{done: make(chan struct{})}
		p.conn.waiting = w
		own := &Pace{raw: p.raw, tcp: p.tcp}
		go func() {
			w.err = p.conn.named(own.raw.Write(own.writable))
			p.conn.mu.Lock()
			p.conn.waiting = nil
			p.conn.mu.Unlock()
			close(w.done)
		}()
	}
	p.conn.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writableWait is a goroutine that waits until a connection is writable. err is set before done
// is closed.
type writableWait struct {
	done chan struct{}
	err  error
}

// kernelWritable reports whether the kernel takes a few more bytes of a connection over TCP.
func kernelWritable(conn *Conn) (writable bool) {
	if p := newPace(conn); p.raw != nil && p.tcp {
		_ = p.raw.Control(func(fd uintptr) { writable = tcpWritable(fd, 0) }) // fails if it is closed
	}
	return writable
}

// writable reports whether at most a quarter of the buffer is in use, or will be once what is
// pending is written. A quarter is when the kernel reports a unix socket as writable.
func (p *Pace) writable(fd uintptr) bool {
	if p.tcp {
		return tcpWritable(fd, int(p.pending))
	}
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

// maxUnsent is how many bytes of a TCP connection the kernel takes before it has sent them. With
// this limit, a connection is writable when less than half of it is in use, and what a client
// does not read fills no larger buffer.
const maxUnsent = 128 << 10

// limitUnsent sets maxUnsent for a TCP connection.
func limitUnsent(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		// If it fails, the kernel takes as much as its buffer can grow.
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
		})
	}
}

// tcpWritable reports whether a TCP connection is writable, also once what is pending is written.
// The kernel wakes the poller of Go for a TCP connection only if poll has found it full before.
func tcpWritable(fd uintptr, pending int) bool {
	if pending > 0 {
		unsent, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD)
		if err != nil || 2*(unsent+pending) > maxUnsent {
			return err != nil // the next write returns the error
		}
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n > 0
}

func (c *Conn) bytesWritten() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// flush waits until the connection has written that many bytes, and returns how many it has written. It
// returns an error if the connection is closed or the context is done.
func (c *Conn) flush(ctx context.Context, bytes int64) (written int64, err error) {
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

// wake makes flush check again.
func (c *Conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed.Broadcast()
}

// HandOver counts the bytes that gRPC was given.
func (p *Pace) HandOver(bytes int) { p.handed += int64(bytes) }
