// Package conn accepts the connections of the server. It detects their protocol and their client, and
// limits what a client may have.
//
//	limits := conn.NewLimiter(conn.Limits{Subscribers: 100}, nil)
//	return conn.NewSplitter(l, &limits.Sockets).Run(ctx, plain, h2, refusedPlain, refusedH2)
//
// A [Splitter] accepts the connections of a listener, and passes each to one of four servers: by
// protocol, and by whether the limits allow it. [From] returns the connection of a request. A [Limiter]
// counts what each client uses.
package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/pkg/access"
)

// errClientSpoke ends a stream whose client sends data after its request.
var errClientSpoke = errors.New("the client sent data after its request")

// Conn is a connection that the limits allow.
//
// While net/http handles a request, it reads one byte to detect that the client has gone. If
// the client sends a byte, for example of a pipelined request, net/http stops reading. A
// client that disconnects after that would keep the place of its stream forever. So the
// connection finds the end of each request header. While it is a stream, any input from the
// client closes it.
type Conn struct {
	net.Conn
	// local is the address of the listener. The address of the connection itself can be the
	// temporary name of the socket.
	local net.Addr
	// peer is its client, which was connected at a time.
	peer      Peer
	connected time.Time
	// refusal is the reason why only health is served; nil for a connection within the limits.
	refusal error
	release func()
	// places are the places for the requests of the connection.
	places *Places
	// refusedCalls counts the calls of gRPC that were refused because too many are open.
	refusedCalls atomic.Int32
	// client is the client process; nil until it is asked for. It is guarded by mu.
	client *access.Subject
	// head has the bytes that were read from Conn and not returned by Read yet.
	head []byte
	// http1 makes Read stop at the end of the header of a request.
	http1 bool
	scan  headerScanner
	// begun is closed when a handler has the first request, and when the connection is closed.
	begun    chan struct{}
	beginOne sync.Once

	mu sync.Mutex // guards what follows
	// flushed is signaled after each write, and when the connection is closed.
	closed  bool
	flushed sync.Cond
	// writing is true during a Write. ahead is how many bytes of HTTP/2 were read during writes, since
	// the last Read that began without one.
	writing bool
	ahead   int
	// between is true if the last byte that Read returned ended the header of a request.
	between bool
	// streaming is true while the current request is a stream.
	streaming bool
}

// New returns a connection of a listener with that address. release gives back its place.
func New(conn net.Conn, local net.Addr, refusal error, release func()) *Conn {
	c := &Conn{Conn: conn, local: local, peer: peerOf(conn), connected: time.Now(), refusal: refusal, release: sync.OnceFunc(release)}
	c.flushed.L = &c.mu
	c.begun = make(chan struct{})
	return c
}

// Begin records that a handler has the first request.
func (c *Conn) Begin() { c.beginOne.Do(func() { close(c.begun) }) }

// awaitRequest waits until a handler has the first request. When the context is done, it waits no
// longer than lastTime.
func (c *Conn) awaitRequest(ctx context.Context) {
	select {
	case <-c.begun:
		return
	case <-ctx.Done():
	}
	select {
	case <-c.begun:
	case <-time.After(lastTime):
	}
}

// Read reads from the client, at most until the end of the header of a request.
func (c *Conn) Read(into []byte) (int, error) {
	n, err := c.read(into)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.between = c.scan.ended
	}
	if c.writing {
		c.ahead += n
	}
	if !c.streaming || n == 0 && err == nil {
		return n, err
	}
	c.abort() // ends a write to a client that does not read
	if err == nil {
		err = errClientSpoke
	}
	return 0, err
}

func (c *Conn) read(into []byte) (n int, err error) {
	if len(c.head) > 0 {
		n = copy(into, c.head)
		c.head = c.head[n:]
	} else {
		if !c.http1 {
			into = c.mayRead(into)
		}
		n, err = c.Conn.Read(into)
		err = c.named(err)
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

// maxAhead is the maximum number of bytes that are read over HTTP/2 while a write waits for the client.
// Without it, a client that does not read could begin more and more calls, whose ends would wait in
// memory. It is enough for a client that resets each of its calls.
const maxAhead = 4 << 10

// mayRead returns the part of a buffer that may be filled now. If maxAhead bytes were read during a write,
// it waits for the end of the write.
func (c *Conn) mayRead(into []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing && c.ahead >= maxAhead && !c.closed {
		c.flushed.Wait()
	}
	if !c.writing || c.closed {
		c.ahead = 0
	}
	return into[:min(len(into), maxAhead-c.ahead)]
}

// Write writes to the client, and counts.
func (c *Conn) Write(data []byte) (int, error) {
	c.mu.Lock()
	c.writing = true
	c.mu.Unlock()
	n, err := c.Conn.Write(data)
	c.mu.Lock()
	c.writing = false
	c.mu.Unlock()
	c.flushed.Broadcast()
	return n, c.named(err)
}

// named replaces the temporary name of the socket in an error by the address of the listener.
func (c *Conn) named(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		op.Source = c.local
	}
	return err
}

// stream closes the connection when the client sends anything or disconnects, until stop is
// called. It removes the write deadline.
func (c *Conn) stream() (stop func()) {
	_ = c.SetWriteDeadline(time.Time{}) // if the connection is closed, writes fail too
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streaming = true
	if !c.between {
		c.abort() // net/http already has bytes that follow the request
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streaming = false
	}
}

// Close closes the connection and releases its place.
func (c *Conn) Close() error {
	defer c.release()
	c.Begin()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.flushed.Broadcast()
	if _, ok := c.Conn.(*tls.Conn); ok && !kernelWritable(c) {
		c.abort() // TLS would wait for the client to read its last message
	}
	return c.Conn.Close()
}

// abort closes the connection at once, without a last message of TLS.
func (c *Conn) abort() { _ = kernelConn(c).Close() }

// TLSState returns the state of TLS; nil without TLS.
func (c *Conn) TLSState() *tls.ConnectionState {
	conn, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	state := conn.ConnectionState()
	return &state
}

// LocalAddr returns the address of the listener.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// clientAddr is the address of the client of a connection.
type clientAddr struct {
	net.Addr
	conn *Conn
}

// RemoteAddr returns the address of the client. gRPC passes it on to calls; see Of.
func (c *Conn) RemoteAddr() net.Addr { return clientAddr{c.Conn.RemoteAddr(), c} }

// Of returns the connection of an address from RemoteAddr; nil for any other address.
func Of(address net.Addr) *Conn {
	a, _ := address.(clientAddr)
	return a.conn
}

// NetConn returns the underlying connection, which has the credentials of the client.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Refusal returns the reason why only health is served; nil for a connection within the limits.
func (c *Conn) Refusal() error { return c.refusal }

// RefuseCall counts a call of gRPC that was refused. gRPC keeps some memory for each until the connection
// ends. So RefuseCall closes a connection that has too many.
func (c *Conn) RefuseCall() {
	if c.refusedCalls.Add(1) >= maxRefusedCalls {
		_ = c.Close()
	}
}

// maxRefusedCalls is how many calls beyond the limit are refused on a connection before it is closed.
const maxRefusedCalls = 250

// connKey is the context key of the connection of a request.
type connKey struct{}

// With adds the connection of a request to its context.
func With(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// From returns the connection of the request of the context. It returns nil without one,
// as in tests.
func From(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

// PeerFrom returns the client of the request of the context.
func PeerFrom(ctx context.Context) Peer {
	if conn := From(ctx); conn != nil {
		return conn.peer
	}
	return Peer{}
}
