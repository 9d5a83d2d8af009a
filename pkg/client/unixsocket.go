package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

// dialTimeout is the timeout for a new connection.
const dialTimeout = 5 * time.Second

// unixSocket is the path of a unix socket.
type unixSocket struct {
	path string
	// dial opens the connections; nil for the standard one.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (u *unixSocket) base() *url.URL { return &url.URL{Scheme: "http", Host: "localhost"} }

func (u *unixSocket) authenticated(t *http.Transport) http.RoundTripper { return t }

func (u *unixSocket) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dial := u.dial
		if dial == nil {
			dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
		}
		conn, err := dial(ctx, "unix", u.path)
		if err != nil {
			return nil, err
		}
		return &socketConn{conn, &net.UnixAddr{Name: u.path, Net: "unix"}}, nil
	}}
}

// dialError adds a likely cause to the error of a connection.
func (u *unixSocket) dialError(err error) error {
	err = withoutURL(err)
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		err = opErr.Err
	}
	var hint string
	switch {
	case u.path == "":
		return errors.New("no socket path: set --socket or " + SocketEnv)
	case errors.Is(err, fs.ErrNotExist):
		hint = ": is podconfigd running, and is this its socket?"
	case isRefused(err) && isDir(u.path):
		hint = ": it is a directory: in a container, mount the directory of the socket and not the socket, which may come later"
	case isRefused(err) && !isSocket(u.path):
		hint = ": not a socket: set the path with --socket or " + SocketEnv
	case isRefused(err):
		hint = ": podconfigd is not running: the socket is from an earlier run"
	case errors.Is(err, fs.ErrPermission):
		hint = ": no permission to use the socket: see --socket-group and --socket-mode of podconfigd"
	}
	return fmt.Errorf("connecting to %s: %w%s", u.path, err, hint)
}

// refused returns the error of a response.
func (u *unixSocket) refused(resp *http.Response) error {
	message, _ := readRefusal(resp)
	if message == "" {
		message = resp.Status
	}
	return &RefusedError{Code: resp.StatusCode, Message: message}
}

// wsaRefused is ECONNREFUSED of sockets on Windows. Other systems have no such number.
const wsaRefused = syscall.Errno(10061)

// isRefused reports whether no process listens.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// isSocket reports whether the path is a socket. It returns true if that can't be determined.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode()&fs.ModeSocket != 0
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// socketConn is a connection to the daemon. Its errors name the path of the socket. The kernel
// reports the temporary name with which the daemon created the socket.
type socketConn struct {
	net.Conn
	addr net.Addr
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
