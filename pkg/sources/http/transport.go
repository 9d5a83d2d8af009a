package http

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"

	"github.com/podconfigd/podconfigd/internal/smallfile"
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
