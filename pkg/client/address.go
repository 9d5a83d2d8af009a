package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// SocketEnv is the environment variable with the path of the socket. ServerEnv is the one
// with the address of the daemon.
const (
	SocketEnv = "PODCONFIGD_SOCKET"
	ServerEnv = "PODCONFIGD_SERVER"
)

// DefaultSocket returns the default path of the socket: the value of PODCONFIGD_SOCKET if it
// is set, /run/podconfigd/podconfigd.sock for root, and otherwise
// podconfigd/podconfigd.sock in XDG_RUNTIME_DIR.
func DefaultSocket() string {
	return cmp.Or(os.Getenv(SocketEnv), v1alpha1.DefaultSocket())
}

// DefaultServer returns the default address of the daemon: the value of PODCONFIGD_SERVER if
// it is set, and otherwise the default socket. It is empty if there is none.
func DefaultServer() string {
	if server := os.Getenv(ServerEnv); server != "" {
		return server
	}
	if socket, err := filepath.Abs(DefaultSocket()); DefaultSocket() != "" && err == nil {
		return unixScheme + socket
	}
	return ""
}

const unixScheme = "unix://"

// userinfo matches what may be a password in a URL that can't be parsed.
var userinfo = regexp.MustCompile("//.*@")

// Config is the address of a daemon, and the credentials for it. Its fields are named as in rest.Config of
// client-go.
type Config struct {
	// Server is the address: unix:///PATH, http://HOST:PORT or https://HOST:PORT. If the address has a
	// path, it is the prefix of all requests.
	Server string
	// BearerToken authenticates the client. BearerTokenFile is a file with the token. It takes precedence
	// over BearerToken, and is read for each request, so that the token can change. Both require https.
	BearerToken, BearerTokenFile string
	// TLSClientConfig requires https.
	TLSClientConfig
	// Dial, if set, opens the connections to the daemon.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLSClientConfig is the configuration of TLS. The data fields take precedence over the files.
type TLSClientConfig struct {
	// Insecure accepts any certificate of the server.
	Insecure bool
	// ServerName is the name in the certificate of the server; the host of the address if
	// empty.
	ServerName string
	// CAFile has the CA certificates that verify the server; if it is empty, the CA certificates of the
	// system do. It is read again when the server's certificate can't be verified.
	CAFile string
	// CertFile and KeyFile are the client certificate and its key. They are read for each
	// connection.
	CertFile, KeyFile         string
	CAData, CertData, KeyData []byte
}

// set reports whether a field is set.
func (c *TLSClientConfig) set() bool {
	return c.Insecure || c.ServerName+c.CAFile+c.CertFile+c.KeyFile != "" || len(c.CAData)+len(c.CertData)+len(c.KeyData) > 0
}

// NewForConfig returns a client for an address. It does not connect. It returns an error if
// the address is invalid, or if credentials can't be read.
func NewForConfig(config Config) (*Client, error) {
	a, err := config.address()
	if err != nil {
		return nil, err
	}
	return newClient(a), nil
}

// address is where the daemon serves.
type address interface {
	// base is the URL of the address.
	base() *url.URL
	// transport returns a transport that connects to the address.
	transport() *http.Transport
	// authenticated adds credentials.
	authenticated(t *http.Transport) http.RoundTripper
	// dialError adds what was attempted, and a likely cause, to the error of a request.
	dialError(err error) error
	// refused returns the error of a response.
	refused(resp *http.Response) error
}

func (c *Config) address() (address, error) {
	if path, ok := strings.CutPrefix(c.Server, unixScheme); ok {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("server %q: expected an absolute path, for example unix:///run/podconfigd/podconfigd.sock", c.Server)
		}
		if err := c.withoutTLS(); err != nil {
			return nil, err
		}
		return &unixSocket{path: path, dial: c.Dial}, nil
	}
	u, err := url.Parse(c.Server)
	switch {
	case err != nil && strings.Contains(c.Server, "://"):
		return nil, fmt.Errorf("server %q: %w", userinfo.ReplaceAllString(c.Server, "//xxxxx@"), withoutURL(err))
	case err != nil || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("server %q: expected https://HOST:PORT, http://HOST:PORT or unix:///PATH", c.Server)
	case u.Hostname() == "":
		return nil, fmt.Errorf("server %q: the host is missing: expected %s://HOST:PORT", c.Server, u.Scheme)
	case u.User != nil:
		return nil, fmt.Errorf("server %q: a URL with a user is not supported: use a token or a client certificate", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("server %q: a URL with a query or a fragment is not supported", c.Server)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	s := &tcpServer{url: u, config: *c}
	if u.Scheme == "http" {
		err = c.withoutTLS()
	} else {
		err = s.readCredentials()
	}
	return s, err
}

// withoutTLS returns an error if there are settings that require https.
func (c *Config) withoutTLS() error {
	what := "a bearer token"
	if c.BearerTokenFile == "" && c.BearerToken == "" {
		if !c.set() {
			return nil
		}
		what = "a setting of TLS"
	}
	return fmt.Errorf("server %q: %s requires an address that begins with https://", c.Server, what)
}

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
