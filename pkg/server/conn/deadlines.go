package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of all connections.
const (
	// HeaderTimeout is the time in which a client must send the header of a request.
	// MaxHeader is the maximum size of a header in bytes.
	HeaderTimeout = 10 * time.Second
	MaxHeader     = 64 << 10
	// IdleTimeout is the time after which a connection without a request is closed.
	IdleTimeout = 2 * time.Minute
	// DrainTimeout is the time in which requests must end when the server stops.
	DrainTimeout = 2 * time.Second
)

// Sizes of the windows that a client over HTTP/2 gets. Requests are small.
const (
	ConnectionWindow = 128 << 10
	StreamWindow     = 64 << 10
)

// Serve calls serve, and returns its error if it ends by itself. When the context is done, Serve calls
// drain with a context that lasts DrainTimeout, waits for serve, and returns the cause of the context.
// drain makes serve return nil or the error closed.
func Serve(ctx context.Context, l net.Listener, serve func(net.Listener) error, closed error, drain func(context.Context)) error {
	ended := make(chan error, 1)
	go func() { ended <- serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), DrainTimeout)
	defer cancel()
	drain(timed)
	if err := <-ended; err != nil && !errors.Is(err, closed) {
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	}
	return context.Cause(ctx)
}

// deadlines sets the deadlines of a request over HTTP/2, until its handler returns. A goroutine of
// gRPC can outlive the handler.
type deadlines struct {
	mu       sync.Mutex
	response *http.ResponseController // nil after the handler has returned
}

type deadlinesKey struct{}

// WithDeadlines adds the deadlines of a request over HTTP/2 to its context: each stream of HTTP/2 has its
// own. The caller calls done when the handler returns.
func WithDeadlines(w http.ResponseWriter, r *http.Request) (with *http.Request, done func()) {
	if r.ProtoMajor != 2 {
		return r, func() {}
	}
	c := &deadlines{response: http.NewResponseController(w)}
	return r.WithContext(context.WithValue(r.Context(), deadlinesKey{}, c)), c.forgetResponse
}

func deadlinesFrom(ctx context.Context) *deadlines {
	c, _ := ctx.Value(deadlinesKey{}).(*deadlines)
	return c
}

func (c *deadlines) forgetResponse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.response = nil
}

// WithoutDeadlines removes the deadlines of the request of the context, over HTTP/2.
func WithoutDeadlines(ctx context.Context) {
	c := deadlinesFrom(ctx)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response != nil {
		_ = c.response.SetReadDeadline(time.Time{}) // fails if the stream has ended
		_ = c.response.SetWriteDeadline(time.Time{})
	}
}

// EndWithin limits the time for writing the rest of the answer to the request of the context. After the
// timeout, the stream of HTTP/2 is reset, and the connection stays. EndWithin returns false for a request
// over HTTP/1.1.
func EndWithin(ctx context.Context, timeout time.Duration) (ok bool) {
	c := deadlinesFrom(ctx)
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response != nil {
		_ = c.response.SetWriteDeadline(time.Now().Add(timeout)) // fails if the stream has ended
	}
	return true
}

// headerScanner finds the ends of request headers. A header ends at an empty line that is not
// its first line.
type headerScanner struct {
	// begun is true after a line that is not empty. line is true if the current line is not
	// empty.
	begun, line bool
	// ended is true if the last byte ended a header.
	ended bool
}

// next returns the number of bytes up to and including the first end of a header, or all.
func (s *headerScanner) next(data []byte) int {
	for i, b := range data {
		s.ended = b == '\n' && s.begun && !s.line
		switch {
		case s.ended:
			*s = headerScanner{ended: true}
			return i + 1
		case b == '\n':
			s.line = false
		case b != '\r':
			s.begun, s.line = true, true
		}
	}
	return len(data)
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

// maxUnsent is how many bytes of a TCP connection the kernel takes before it has sent them. So what a client
// does not read fills no larger buffer.
const maxUnsent = 128 << 10

// controlTCP calls f with the descriptor of a connection over TCP. It does nothing for any other connection.
func controlTCP(conn net.Conn, f func(fd int)) {
	tcp, ok := kernelConn(conn).(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // fails if it is closed
	}
}

// limitUnsent sets maxUnsent for a TCP connection. If it fails, the kernel takes as much as its buffer can grow.
func limitUnsent(conn net.Conn) {
	controlTCP(conn, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) })
}

// kernelWritable reports whether the kernel takes a few more bytes of a connection over TCP.
func kernelWritable(conn net.Conn) (writable bool) {
	controlTCP(conn, func(fd int) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		writable = err != nil || n > 0
	})
	return writable
}
