package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Client is a client of one daemon. It is safe for concurrent use.
type Client struct {
	address address
	// http has a connection for each request: a stream uses its own, and other requests are
	// rare. lookups keeps its connections. calls is http with HTTP/2, also without TLS.
	http, lookups, calls *http.Client
}

// New returns a client for the socket at that path. It does not connect. For other addresses,
// see [NewForConfig].
func New(socket string) *Client { return newClient(&unixSocket{path: socket}) }

func newClient(a address) *Client {
	transport := func(keepAlive, modern bool) *http.Client {
		t := a.transport()
		t.DisableCompression, t.DisableKeepAlives = true, !keepAlive
		t.MaxIdleConnsPerHost, t.IdleConnTimeout = idleConns, idleTimeout
		if modern {
			t.Protocols = new(http.Protocols)
			t.Protocols.SetUnencryptedHTTP2(true)
		}
		return &http.Client{Transport: a.authenticated(t), CheckRedirect: noRedirect}
	}
	c := &Client{address: a, http: transport(false, false), lookups: transport(true, false)}
	if c.calls = c.http; a.base().Scheme == "http" {
		c.calls = transport(false, true)
	}
	return c
}

// noRedirect makes a redirect the answer. It could name another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// idleConns is the number of idle connections that are kept for lookups, for idleTimeout.
const (
	idleConns   = 8
	idleTimeout = 30 * time.Second
)

// CloseIdleConnections closes the connections that Lookup keeps for 30 seconds.
func (c *Client) CloseIdleConnections() { c.lookups.CloseIdleConnections() }

// RoundTrip sends a request for which the client has no method, for example
//
//	scrape := &http.Client{Transport: c}
//
// The address of the daemon replaces the scheme and the host of the URL. Each request has a
// connection of its own. A request whose ProtoMajor is 2 is sent over HTTP/2, as gRPC needs it. A URL
// without a path that begins with a slash is an error.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	if u := req.URL; u.Opaque != "" || u.Path != "" && u.Path[0] != '/' { // it would leave the path of the address
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, fmt.Errorf("sending a request for %q: expected a path that begins with /", u)
	}
	with := c.http
	if req.ProtoMajor == 2 {
		with = c.calls
	}
	req = req.Clone(req.Context())
	base := c.address.base()
	req.URL.Scheme, req.URL.Host, req.Host = base.Scheme, base.Host, base.Host
	req.URL.Path, req.URL.RawPath = base.Path+req.URL.Path, base.EscapedPath()+req.URL.EscapedPath()
	resp, err := with.Transport.RoundTrip(req)
	if err != nil {
		return nil, c.address.dialError(err)
	}
	return resp, nil
}

// Ping returns an error if the daemon can't be reached. It returns a [RefusedError] if the
// daemon does not accept the credentials, or is not healthy.
func (c *Client) Ping(ctx context.Context) error {
	body, err := c.get(ctx, "/healthz", nil)
	if err != nil {
		return err
	}
	return body.Close()
}

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

// Get requests a path of the daemon for which the client has no method, for example /pods or
// /api/v1/pods. It returns the body of a successful answer, which the caller closes, and a
// [RefusedError] for any other answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.get(ctx, path, query)
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
	return c.release(ctx, url.Values{"source": {source}})
}

// ReleaseUpTo is Release if the held set removes at most that number of pods: a newer set can be held than the
// one that was looked at. Otherwise it returns a [RefusedError] with code 409.
func (c *Client) ReleaseUpTo(ctx context.Context, source string, removes int) error {
	return c.release(ctx, url.Values{"source": {source}, "removes": {strconv.Itoa(removes)}})
}

func (c *Client) release(ctx context.Context, query url.Values) error {
	body, err := c.do(ctx, http.MethodPost, "/v1alpha1/release", query)
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
	target := *c.address.base()
	target.RawPath = target.EscapedPath() + path // our paths need no escapes
	target.Path += path
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", filepath.Base(os.Args[0]))
	resp, err := with.Do(req)
	if err != nil {
		return nil, c.address.dialError(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, c.address.refused(resp)
}
