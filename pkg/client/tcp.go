package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// handshakeTimeout is the timeout for TLS.
	handshakeTimeout = 10 * time.Second
	// A connection is closed if nothing arrives for pingAfter, and then no answer to a ping for
	// pingTimeout. client-go has the same values.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// tcpServer is an address over TCP, with TLS or without.
type tcpServer struct {
	url    *url.URL
	config Config
	tls    *tls.Config
	// asked is true if the server has asked for a client certificate.
	asked atomic.Bool
}

func (s *tcpServer) base() *url.URL { return s.url }

func (s *tcpServer) transport() *http.Transport {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         s.config.Dial,
		TLSHandshakeTimeout: handshakeTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{
			Timeout:         dialTimeout,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout / 3, Count: 3},
		}).DialContext
	}
	if s.tls != nil {
		t.TLSClientConfig = s.tls.Clone()
	}
	return t
}

func (s *tcpServer) authenticated(t *http.Transport) http.RoundTripper {
	var next http.RoundTripper = t
	if s.config.CAFile != "" && s.config.CAData == nil {
		next = &reloading{server: s, current: t}
	}
	if s.config.BearerToken == "" && s.config.BearerTokenFile == "" {
		return next
	}
	return &bearer{server: s, next: next}
}

// dialError adds the address and a likely cause to the error of a request.
func (s *tcpServer) dialError(err error) error {
	err = withoutURL(err)
	return fmt.Errorf("connecting to %s: %w%s", s.url, err, s.hint(err))
}

// hint returns what to do about an error of a connection.
func (s *tcpServer) hint(err error) string {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		return ": the name is unknown: check the address in --server or " + ServerEnv
	}
	if other, ok := errors.AsType[x509.HostnameError](err); ok {
		if names := other.Certificate.DNSNames; len(names) > 0 {
			return fmt.Sprintf(": set --tls-server-name, for example to %s, if this is the server", names[0])
		}
		return ": set --tls-server-name if this is the server"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return ": set --certificate-authority to the CA of the server"
	}
	switch {
	case isRefused(err):
		return ": is podconfigd running there, with this address in --listen?"
	case s.asked.Load() && endsConnection(err):
		return s.credentialsHint()
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return ": use http:// in the address"
	}
	return ""
}

// endsConnection reports whether the server ended a connection. If it does so because of the
// client certificate, the client may not get to read the reason.
func endsConnection(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) ||
		strings.Contains(err.Error(), "remote error: tls: ") || strings.Contains(err.Error(), "client conn could not be established")
}

// refused returns the error of a response. The error names the request if the daemon did not write the
// response, or if it refuses the credentials.
func (s *tcpServer) refused(resp *http.Response) error {
	message, body := readRefusal(resp)
	refused := &RefusedError{Code: resp.StatusCode, Message: message}
	denied := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	if message != "" && !denied {
		return refused
	}
	target := *resp.Request.URL
	target.RawQuery = ""
	if message == "" {
		message = resp.Status
	}
	hint := ""
	switch {
	case s.tls != nil && (resp.StatusCode == http.StatusUnauthorized || denied && !s.hasCredentials()):
		hint = s.credentialsHint()
	case bytes.Contains(body, []byte("HTTP request to an HTTPS server")):
		hint = ": use https:// in the address"
	case resp.Header.Get("Location") != "":
		hint = ": the server redirects to " + resp.Header.Get("Location") + ": is this the address of podconfigd?"
	}
	refused.Message = fmt.Sprintf("%s %s: %s%s", resp.Request.Method, &target, message, hint)
	return refused
}

func (s *tcpServer) hasCredentials() bool {
	c := &s.config
	return c.BearerToken+c.BearerTokenFile+c.CertFile != "" || len(c.CertData) > 0
}

// credentialsHint returns what to do if the server does not accept the credentials.
func (s *tcpServer) credentialsHint() string {
	switch c := &s.config; {
	case c.BearerTokenFile != "":
		return ": the token in " + c.BearerTokenFile + " is not accepted: is it expired?"
	case c.BearerToken != "":
		return ": the token is not accepted: is it expired?"
	case c.CertFile != "":
		return ": the client certificate " + c.CertFile + " is not accepted: is it from a CA in --client-ca-file of podconfigd?"
	case len(c.CertData) > 0:
		return ": the client certificate is not accepted: is it from a CA in --client-ca-file of podconfigd?"
	}
	return ": set --token-file, or --client-certificate and --client-key"
}

// bearer adds the bearer token to requests.
type bearer struct {
	server *tcpServer
	next   http.RoundTripper
}

// RoundTrip sends a request with the token.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.server.config.token()
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections.
func (b *bearer) CloseIdleConnections() { closeIdle(b.next) }

func closeIdle(t http.RoundTripper) {
	if c, ok := t.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
