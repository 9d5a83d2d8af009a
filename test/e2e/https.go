package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var served = regexp.MustCompile(`authorization" address="(https://[^"]+)"`)

// HTTPS returns the https address that the daemon has logged.
func (d *Daemon) HTTPS(t *testing.T) string {
	t.Helper()
	var address string
	d.Await(t, "the https address", func() bool {
		found := served.FindStringSubmatch(d.Log.String())
		if found != nil {
			address = found[1]
		}
		return found != nil
	})
	return address
}

// Await waits until something is true.
func (d *Daemon) Await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Serving is what clients of the https address need.
type Serving struct {
	Address string
	CA      []byte
	Roots   *x509.CertPool
}

// Certificate writes a certificate for the address, and returns the flags for it.
func Certificate(t *testing.T, a *components.Authority, dir string) []string {
	t.Helper()
	cert, key := a.Issue(t, "podconfigd")
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key")}
}

// Client returns a client of the address that uses HTTP/1.1 or HTTP/2.
func (s *Serving) Client(t *testing.T, major int, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Roots, Certificates: certificates}, ForceAttemptHTTP2: major == 2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Get returns the status code, the major version of HTTP and the body of an answer.
func (s *Serving) Get(t *testing.T, c *http.Client, method, path, token string) (code, major int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.Address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.ProtoMajor, string(data)
}

// Local starts a daemon whose tokens are in a file.
func Local(t *testing.T, args ...string) (*Daemon, *Serving) {
	t.Helper()
	dir := testutil.ShortDir(t)
	authority := components.NewAuthority(t, "test")
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte("s3cret,alice,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	(&Daemon{Dir: dir}).Mkdir(t)
	d := Start(t, dir, append(append(Certificate(t, authority, dir), "--listen", "https://127.0.0.1:0",
		"--token-auth-file", filepath.Join(dir, "tokens")), args...)...)
	s := &Serving{Address: d.HTTPS(t), CA: authority.PEM, Roots: x509.NewCertPool()}
	s.Roots.AppendCertsFromPEM(s.CA)
	return d, s
}

// CAFile writes the certificate of an authority into a file, and returns its path.
func CAFile(t *testing.T, dir string, ca []byte) string {
	t.Helper()
	path := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(path, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
