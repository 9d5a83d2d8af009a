package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// errClientSpoke ends a stream whose client sends more than its request.
var errClientSpoke = errors.New("the client sent something after its request")

// admittedConn is a connection that the limits allow.
//
// net/http reads one byte ahead while it handles a request, to notice that the client is
// gone. A byte that comes, as of a pipelined request, ends the looking, and a client that
// goes away after it holds the place of its stream forever. So the connection knows
// where requests end, and while it is a stream, whatever comes from the client closes it.
type admittedConn struct {
	net.Conn
	// local is the address of the listener, which a socket's own need not be.
	local net.Addr
	// refusal is why nothing but health is answered; nil usually.
	refusal error
	release func()
	// head is what has been read and not handed on.
	head []byte
	// http1 has Read stop where a request's header ends.
	http1 bool
	scan  headerScanner

	mu sync.Mutex // guards what follows
	// between: the last byte that was handed on ended a request's header.
	between bool
	// streaming: the request that is being handled is a stream.
	streaming bool
}

// Read returns what the client sends, at most until the end of a request's header.
func (c *admittedConn) Read(into []byte) (int, error) {
	n, err := c.read(into)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.between = c.scan.ended
	}
	if !c.streaming || n == 0 && err == nil {
		return n, err
	}
	_ = c.Conn.Close() // so that whoever writes to a client that does not read returns too
	if err == nil {
		err = errClientSpoke
	}
	return 0, err
}

func (c *admittedConn) read(into []byte) (n int, err error) {
	if len(c.head) > 0 {
		n = copy(into, c.head)
		c.head = c.head[n:]
	} else {
		n, err = c.Conn.Read(into)
	}
	if !c.http1 {
		return n, err
	}
	if end := c.scan.next(into[:n]); end < n {
		c.head = append(append([]byte{}, into[end:n]...), c.head...)
		n = end
	}
	return n, err
}

// stream has the connection end with the first thing that the client does, be it that it
// sends something, or that it hangs up, until stop is called. Writing has no deadline
// meanwhile.
func (c *admittedConn) stream() (stop func()) {
	_ = c.SetWriteDeadline(time.Time{}) // fails where it is closed, which writing tells too
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streaming = true
	if !c.between {
		_ = c.Conn.Close() // what came is with net/http already
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streaming = false
	}
}

// Close closes the connection and gives its place back.
func (c *admittedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// LocalAddr returns the address of the listener.
func (c *admittedConn) LocalAddr() net.Addr { return c.local }

// NetConn returns the connection itself, which knows its peer.
func (c *admittedConn) NetConn() net.Conn { return c.Conn }

// connKey is the key of a request's connection, and headKey that of whether its method is
// HEAD, which has no stream.
type (
	connKey struct{}
	headKey struct{}
)

// withConn puts the connection and who is at its other end into a context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, conn)
	return context.WithValue(ctx, peerKey{}, peerOf(conn))
}

// connFrom returns the connection of the request of the context; nil where it has none, as
// in tests.
func connFrom(ctx context.Context) *admittedConn {
	conn, _ := ctx.Value(connKey{}).(*admittedConn)
	return conn
}

// subscribe takes a place among the subscribers for the request of the context, whose
// connection is a stream until release is called.
func (s *Server) subscribe(ctx context.Context) (release func(), refusal error) {
	giveBack, refusal := s.limits.subscriber(peerFrom(ctx))
	conn := connFrom(ctx)
	if refusal != nil || conn == nil || ctx.Value(headKey{}) != nil {
		return giveBack, refusal
	}
	stop := conn.stream()
	return func() { stop(); giveBack() }, nil
}
