package conn

import (
	"context"
	"net"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// Pace lets a call of gRPC wait until gRPC has written what it was given. gRPC writes in its own goroutine, and
// keeps 64 KiB more for each call that it has not written. net/http writes at once, so that its streams need no pace.
type Pace struct {
	// conn is the connection; nil if the writes on it say nothing about this call.
	conn *Conn
	// written is the number of bytes that the connection had written when Wait returned last. handed is
	// the number of bytes that gRPC was given since then.
	handed, written int64
}

// CallPace returns the pace of a call of gRPC.
func CallPace(ctx context.Context) *Pace {
	conn := From(ctx)
	if conn == nil || deadlinesFrom(ctx) != nil { // over HTTP/2 of net/http
		return &Pace{}
	}
	return &Pace{conn: conn, written: conn.bytesWritten()}
}

// HandOver counts the bytes that gRPC was given.
func (p *Pace) HandOver(bytes int) { p.handed += int64(bytes) }

// Wait waits until everything was written. It checks only after each BatchSize. It returns an error if the
// connection is closed or the context is done.
func (p *Pace) Wait(ctx context.Context) (err error) {
	if p.conn == nil || p.handed < view.BatchSize {
		return nil
	}
	p.written, err = p.conn.flush(ctx, p.written+p.handed)
	p.handed = 0
	return err
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
