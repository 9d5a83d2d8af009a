package http

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"time"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// maxRedirects is net/http's own limit.
	maxRedirects = 10
	// maxHeaderBytes is the maximum size of the headers of an answer; net/http has 10
	// MiB.
	maxHeaderBytes = 256 << 10
	// maxIdle is the number of connections that are kept for the next request. It is
	// small, because redirects to many servers would use the file descriptors of other
	// sources.
	maxIdle = 2
)

// transport makes the client for each request. It reads the files with credentials each
// time, and makes a new client when one of them has changed.
type transport struct {
	target *url.URL
	header nethttp.Header
	opts   Options

	loaded  [][]byte
	token   string
	current *nethttp.Client
	inner   *nethttp.Transport
}

func newTransport(target *url.URL, opts Options) *transport {
	return &transport{target: target, header: opts.Header.Clone(), opts: opts}
}

func (t *transport) close() {
	if t.inner != nil {
		t.inner.CloseIdleConnections()
	}
}

// client returns a client with the credentials as they are on disk.
func (t *transport) client() (*nethttp.Client, error) {
	var files [][]byte
	for _, path := range []string{t.opts.CAFile, t.opts.CertFile, t.opts.KeyFile, t.opts.BearerTokenFile} {
		var data []byte
		if path != "" {
			var err error
			if data, err = smallfile.Read(path); err != nil {
				return nil, fmt.Errorf("reading the credentials: %w", err)
			}
		}
		files = append(files, data)
	}
	if t.current != nil && bytes.Equal(bytes.Join(files, []byte{0}), bytes.Join(t.loaded, []byte{0})) {
		return t.current, nil
	}
	tlsConfig, err := t.tlsConfig(files[0], files[1], files[2])
	if err != nil {
		return nil, err
	}
	t.close()
	t.inner = nethttp.DefaultTransport.(*nethttp.Transport).Clone() //nolint:errcheck,forcetypeassert // it is a Transport
	t.inner.TLSClientConfig = tlsConfig
	t.inner.MaxResponseHeaderBytes, t.inner.MaxIdleConns = maxHeaderBytes, maxIdle
	t.token = string(bytes.TrimSpace(files[3]))
	t.loaded = files
	t.current = &nethttp.Client{Transport: t, CheckRedirect: func(_ *nethttp.Request, via []*nethttp.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("the server redirected %d times", len(via))
		}
		return nil
	}}
	return t.current, nil
}

func (t *transport) tlsConfig(ca, cert, key []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.opts.CAFile != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("no certificate in %s", t.opts.CAFile)
		}
	}
	if t.opts.CertFile != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate %s with key %s: %w", t.opts.CertFile, t.opts.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// RoundTrip adds the configured headers and the token, only to requests for the URL's own
// host and scheme.
func (t *transport) RoundTrip(req *nethttp.Request) (*nethttp.Response, error) {
	if t.inner == nil {
		return nil, errors.New("there is no client yet")
	}
	own := req.URL.Host == t.target.Host && req.URL.Scheme == t.target.Scheme
	clone := req.Clone(req.Context())
	if !own {
		clone.Header.Del("Referer") // it contains the URL's query
	} else {
		for name, values := range t.header {
			clone.Header[nethttp.CanonicalHeaderKey(name)] = values
			if nethttp.CanonicalHeaderKey(name) == "Host" && len(values) > 0 {
				clone.Host = values[0]
			}
		}
		if t.token != "" {
			clone.Header.Set("Authorization", "Bearer "+t.token)
		}
	}
	return t.inner.RoundTrip(clone)
}

// requestTimeout is the maximum time of an answer, from the connection to its last byte.
//
// kubelet: pkg/kubelet/config/http.go NewSourceURL.
const requestTimeout = 10 * time.Second

// answer is the answer of the server.
type answer struct {
	// unchanged means that nothing changed since the last remembered answer.
	unchanged bool
	body      []byte
	sum       [sha256.Size]byte
	// retryAfter is the wait that the server asks for; 0 if none.
	retryAfter time.Duration
	// arrived is when the header of the answer came.
	arrived time.Time
}

// fetcher requests the URL.
type fetcher struct {
	target    *url.URL
	timeout   time.Duration
	transport *transport
	// last is the sum of the body of the last remembered answer.
	last *[sha256.Size]byte
}

func newFetcher(target *url.URL, opts Options) *fetcher {
	return &fetcher{target: target, timeout: cmp.Or(opts.timeout, requestTimeout), transport: newTransport(target, opts)}
}

func (f *fetcher) close() { f.transport.close() }

// remember stores the answer, with which the next ones are compared.
func (f *fetcher) remember(a answer) { f.last = &a.sum }

// forget makes that the next answer is not compared.
func (f *fetcher) forget() { f.last = nil }

// fetch sends one request.
func (f *fetcher) fetch(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client, err := f.transport.client()
	if err != nil {
		return answer{}, sources.Because(sources.ReasonCredentials, err)
	}
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, f.target.String(), nil)
	if err != nil {
		return answer{}, errors.New("creating the request failed") // the error of net/http contains the URL
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, f.explain("requesting the URL", err)
	}
	defer resp.Body.Close()
	a := answer{
		arrived:    time.Now(),
		retryAfter: sources.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter),
	}
	if resp.StatusCode != nethttp.StatusOK {
		return a, sources.Because(sources.ReasonOfCode(resp.StatusCode), fmt.Errorf("the server answered %s", resp.Status))
	}
	if a.body, err = manifest.Read(resp.Body, 0); err != nil {
		return a, f.explain("reading the answer", err)
	}
	a.sum = sha256.Sum256(a.body)
	a.unchanged = f.last != nil && a.sum == *f.last
	return a, nil
}

// explain returns an error for a failed step. It removes the URL, which may contain
// secrets, from an error of net/http.
func (f *fetcher) explain(doing string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: no complete answer within %v: %w", doing, f.timeout, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
