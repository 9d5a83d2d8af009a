package client

import (
	"context"
	"errors"
	"net"
	"time"
)

// dialTimeout is the timeout for a new connection.
const dialTimeout = 5 * time.Second

// socketConn is a connection to the daemon. Its errors name the path of the socket. The kernel
// reports the temporary name with which the daemon created the socket.
type socketConn struct {
	net.Conn
	addr net.Addr
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	return &socketConn{conn, &net.UnixAddr{Name: socket, Net: "unix"}}, nil
}

// RemoteAddr returns the path of the socket.
func (c *socketConn) RemoteAddr() net.Addr { return c.addr }

// Read reads from the connection.
func (c *socketConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	return n, c.named(err)
}

// Write writes to the connection.
func (c *socketConn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	return n, c.named(err)
}

func (c *socketConn) named(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		op.Addr = c.addr
	}
	return err
}
