// Package client reads podconfigd's stream of updates.
//
//	c := client.New(client.DefaultSocket())
//	for update, err := range c.Updates(ctx, client.Options{}) {
//		if err != nil {
//			return err
//		}
//		// update.Op, update.Pods
//	}
//
// [New] is for a socket. [NewForConfig] is for an address over TCP, with TLS and credentials:
//
//	c, err := client.NewForConfig(client.Config{Server: "https://node1:10250", BearerTokenFile: "token",
//		TLSClientConfig: client.TLSClientConfig{CAFile: "ca.crt"}})
//
// The loop continues after restarts of the daemon and lost connections. The client resumes by instance and
// revision. It waits between attempts with backoff and jitter, also if there are too many subscribers in
// the meantime. If the client can't resume, the loop gets an update with Reset: forget every pod. The
// current pods follow. Updates that the daemon splits into frames are delivered whole.
//
// For only the current pods, run a [Cache]. It follows the stream, and supports lists,
// names and indexes, among them UIDs, IPs and container IDs.
//
// [Client.Lookup] asks which pod and container a process, a container ID or an IP belongs to.
// It can wait for a container that is about to start.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	transport := func(keepAlive, overHTTP2 bool) *http.Client {
		t := a.transport()
		t.DisableCompression, t.DisableKeepAlives = true, !keepAlive
		t.MaxIdleConnsPerHost, t.IdleConnTimeout = idleConns, idleTimeout
		if overHTTP2 {
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

// do sends a request. It returns the body of a successful response, and a [RefusedError] for any other
// response.
func (c *Client) do(ctx context.Context, with *http.Client, method, path string, query url.Values) (io.ReadCloser, error) {
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

// RefusedError is an error response of the daemon.
type RefusedError struct {
	// Code is the HTTP status.
	Code    int
	Message string
}

// Error returns the message of the daemon. Over TCP, an error of the credentials, or of
// another server, also has the request.
func (e *RefusedError) Error() string { return e.Message }

// maxError is how much is read of an error response.
const maxError = 1 << 20

// readRefusal returns the message of an error response, or its body if podconfigd did not
// send it.
func readRefusal(resp *http.Response) (message string, body []byte) {
	body, _ = io.ReadAll(io.LimitReader(resp.Body, maxError)) // part of it is enough
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return "", body
	}
	return status.Message, nil
}

// withoutURL returns the error of a request without the URL of the request.
func withoutURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}
