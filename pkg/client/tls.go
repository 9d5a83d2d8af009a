package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// readCredentials reads all files once, and sets the TLS configuration.
func (s *tcpServer) readCredentials() error {
	c := &s.config
	if c.Insecure && (c.CAFile != "" || len(c.CAData) > 0) {
		return fmt.Errorf("server %s: a CA has no effect on a connection whose certificate is not verified: leave out one of them", s.url)
	}
	s.tls = &tls.Config{
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.Insecure, //nolint:gosec // the user asked for it
	}
	ca, caErr := c.readCA()
	if caErr == nil && ca != nil {
		s.tls.RootCAs, caErr = roots(ca, c.CAFile)
	}
	_, tokenErr := c.token()
	_, certErr := c.certificate()
	s.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		s.asked.Store(true)
		cert, err := c.certificate()
		if cert == nil {
			cert = new(tls.Certificate) // the connection goes on without one
		}
		return cert, err
	}
	return errors.Join(caErr, tokenErr, certErr)
}

// token returns the bearer token; "" for none.
func (c *Config) token() (string, error) {
	if c.BearerTokenFile == "" {
		return c.BearerToken, nil
	}
	data, err := smallfile.Read(c.BearerTokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the bearer token: %w", err)
	}
	token := string(bytes.TrimSpace(data))
	if token == "" {
		return "", fmt.Errorf("reading the bearer token: %s is empty", c.BearerTokenFile)
	}
	return token, nil
}

// readCA returns the CA certificates; nil means the CA certificates of the system.
func (c *Config) readCA() ([]byte, error) {
	if c.CAData != nil || c.CAFile == "" {
		return c.CAData, nil
	}
	data, err := smallfile.Read(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	return data, nil
}

func roots(ca []byte, file string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(ca) {
		return pool, nil
	}
	if file == "" {
		file = "the data"
	}
	return nil, fmt.Errorf("reading the certificate authority: %s has no certificate in PEM", file)
}

// certificate reads the client certificate; nil for none.
func (c *Config) certificate() (_ *tls.Certificate, err error) {
	certPEM, keyPEM := c.CertData, c.KeyData
	hasCert, hasKey := len(certPEM) > 0 || c.CertFile != "", len(keyPEM) > 0 || c.KeyFile != ""
	if !hasCert && !hasKey {
		return nil, nil //nolint:nilnil // there is none
	}
	if hasCert != hasKey {
		return nil, errors.New("a client certificate requires its key, and a key its certificate: set both")
	}
	if len(certPEM) == 0 {
		if certPEM, err = smallfile.Read(c.CertFile); err != nil {
			return nil, fmt.Errorf("reading the client certificate: %w", err)
		}
	}
	if len(keyPEM) == 0 {
		if keyPEM, err = smallfile.Read(c.KeyFile); err != nil {
			return nil, fmt.Errorf("reading the client key: %w", err)
		}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("client certificate %s with key %s: %w", c.CertFile, c.KeyFile, err)
	}
	return &cert, nil
}

// reloading is a transport that reads the CA again when it can't verify the server.
type reloading struct {
	server *tcpServer

	mu      sync.Mutex // guards what follows
	current *http.Transport
}

func (r *reloading) transport() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// RoundTrip sends a request. It sends it a second time if the CA has changed, and if nothing
// of its body was read.
func (r *reloading) RoundTrip(req *http.Request) (*http.Response, error) {
	with := r.transport()
	resp, err := with.RoundTrip(req)
	if _, unverified := errors.AsType[*tls.CertificateVerificationError](err); !unverified || !r.reload(with) {
		return resp, err
	}
	if req.Body != nil && req.Body != http.NoBody {
		return nil, err // the next request has the new CA
	}
	return r.transport().RoundTrip(req)
}

// reload reads the CA, and reports whether it differs from the CA of the transport.
func (r *reloading) reload(failed *http.Transport) bool {
	ca, err := r.server.config.readCA()
	if err != nil {
		return false
	}
	pool, err := roots(ca, r.server.config.CAFile)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != failed {
		return true // another request has read it
	}
	if err != nil || pool.Equal(failed.TLSClientConfig.RootCAs) {
		return false
	}
	r.current = failed.Clone()
	r.current.TLSClientConfig.RootCAs = pool
	failed.CloseIdleConnections()
	return true
}

// CloseIdleConnections closes the idle connections.
func (r *reloading) CloseIdleConnections() { r.transport().CloseIdleConnections() }
