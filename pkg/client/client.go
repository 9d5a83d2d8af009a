package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/socketpath"
)

// SocketEnv is the environment variable with the path of the socket.
const SocketEnv = "PODCONFIGD_SOCKET"

// DefaultSocket returns the default path of the socket: the value of PODCONFIGD_SOCKET if it
// is set, /run/podconfigd/podconfigd.sock for root, and otherwise
// podconfigd/podconfigd.sock in XDG_RUNTIME_DIR.
func DefaultSocket() string {
	if socket := os.Getenv(SocketEnv); socket != "" {
		return socket
	}
	return socketpath.Default()
}

// Client is a client of one daemon. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
	// lookups keeps its connections.
	lookups *http.Client
}

// New returns a client for the socket at that path. It does not connect.
func New(socket string) *Client {
	once := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
		DisableCompression: true,
		DisableKeepAlives:  true, // a stream uses its own connection, and other requests are rare
	}
	kept := once.Clone()
	kept.DisableKeepAlives, kept.MaxIdleConnsPerHost, kept.IdleConnTimeout = false, idleConns, idleTimeout
	return &Client{socket: socket, http: &http.Client{Transport: once}, lookups: &http.Client{Transport: kept}}
}

// idleConns is the number of idle connections that are kept for lookups, for idleTimeout.
const (
	idleConns   = 8
	idleTimeout = 30 * time.Second
)

// CloseIdleConnections closes the connections that Lookup keeps for 30 seconds.
func (c *Client) CloseIdleConnections() { c.lookups.CloseIdleConnections() }

// Status returns the daemon's status.
func (c *Client) Status(ctx context.Context) (*v1alpha1.Status, error) {
	var status v1alpha1.Status
	return &status, c.getJSON(ctx, "/v1alpha1/status", nil, &status)
}

// Pods returns the current pods, including mirror pods.
func (c *Client) Pods(ctx context.Context) (*v1.PodList, error) {
	var pods v1.PodList
	return &pods, c.getJSON(ctx, "/pods", url.Values{"mirrorPods": {"true"}}, &pods)
}

// Runtime returns the pods of the container runtime. It returns a [RefusedError] with code
// 404 if the daemon has no runtime.
func (c *Client) Runtime(ctx context.Context) (*v1alpha1.RuntimePods, error) {
	var pods v1alpha1.RuntimePods
	return &pods, c.getJSON(ctx, "/v1alpha1/runtime", nil, &pods)
}

// Resync sends a SYNC for one pod. It returns a [RefusedError] with code 404 if there is no
// such pod, and with 429 if there are too many requests for the pod.
func (c *Client) Resync(ctx context.Context, namespace, name string) error {
	body, err := c.do(ctx, http.MethodPost, "/v1alpha1/resync", url.Values{"namespace": {namespace}, "name": {name}})
	if err != nil {
		return err
	}
	return body.Close()
}

// Release merges the held set of a source, which removes pods. It returns a [RefusedError]
// with code 404 if no set of the source is held.
func (c *Client) Release(ctx context.Context, source string) error {
	body, err := c.do(ctx, http.MethodPost, "/v1alpha1/release", url.Values{"source": {source}})
	if err != nil {
		return err
	}
	return body.Close()
}

func (c *Client) getJSON(ctx context.Context, path string, query url.Values, into any) error {
	return c.getJSONWith(ctx, c.http, path, query, into)
}

func (c *Client) getJSONWith(ctx context.Context, with *http.Client, path string, query url.Values, into any) error {
	body, err := c.doWith(ctx, with, http.MethodGet, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("reading the response to %s: %w", path, err)
	}
	return nil
}

// get returns the body of a successful response. It returns a [RefusedError] for any other
// response.
func (c *Client) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodGet, path, query)
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values) (io.ReadCloser, error) {
	return c.doWith(ctx, c.http, method, path, query)
}

func (c *Client) doWith(ctx context.Context, with *http.Client, method, path string, query url.Values) (io.ReadCloser, error) {
	target := url.URL{Scheme: "http", Host: "localhost", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", filepath.Base(os.Args[0]))
	resp, err := with.Do(req)
	if err != nil {
		return nil, c.dialError(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&status); err != nil || status.Message == "" {
		status.Message = resp.Status
	}
	return nil, &RefusedError{Code: resp.StatusCode, Message: status.Message}
}

// RefusedError is an error response of the daemon.
type RefusedError struct {
	// Code is the HTTP status.
	Code    int
	Message string
}

// Error returns the message of the daemon.
func (e *RefusedError) Error() string { return e.Message }

// dialError adds a likely cause to the error of a connection.
func (c *Client) dialError(err error) error {
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		err = opErr.Err // without the made-up URL
	}
	var hint string
	switch {
	case c.socket == "":
		return errors.New("no socket path: set --socket or " + SocketEnv)
	case errors.Is(err, fs.ErrNotExist):
		hint = ": is podconfigd running, and is this its socket?"
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(c.socket):
		hint = ": not a socket: set the path with --socket or " + SocketEnv
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = ": podconfigd is not running: the socket is from an earlier run"
	case errors.Is(err, fs.ErrPermission):
		hint = ": no permission to use the socket: see --socket-group and --socket-mode of podconfigd"
	}
	return fmt.Errorf("connecting to %s: %w%s", c.socket, err, hint)
}

// isSocket reports whether the path is a socket. It returns true if that can't be determined.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode()&fs.ModeSocket != 0
}
