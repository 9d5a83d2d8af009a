package soak

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
)

// cutter connects to the daemon's socket. Each connection ends after a random number of
// bytes.
type cutter struct {
	socket string
	mu     sync.Mutex // guards random
	random *rand.Rand
	// most is the approximate number of bytes that the longest connections read; 0 to cut
	// none.
	most int
	// rest reports whether no more connections must end.
	rest func() bool
}

func (c *cutter) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil || c.most == 0 {
		return conn, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Each order of magnitude has the same probability. The smallest is within the
	// headers.
	const least = 100
	return &cutConn{conn, c, int(least * math.Exp(c.random.Float64()*math.Log(float64(c.most/least))))}, nil
}

// cutConn looks as if the daemon had closed it.
type cutConn struct {
	net.Conn

	of   *cutter
	left int
}

func (c *cutConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if c.left -= n; c.left >= 0 || c.of.rest() {
		return n, err
	}
	_ = c.Close()
	return max(0, n+c.left), io.EOF
}
