package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// pki has an authority whose certificates are in files.
type pki struct {
	*components.Authority
	dir string
}

func newPKI(t *testing.T, name string) *pki {
	t.Helper()
	return &pki{components.NewAuthority(t, name), t.TempDir()}
}

// file writes a file and returns its path.
func (p *pki) file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *pki) serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Issue(t, "server"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// serveTLS serves the handler, over HTTP/2 if modern is true.
func serveTLS(t *testing.T, modern bool, config *tls.Config, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2, s.TLS, s.Config.ErrorLog = modern, config, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// gateway serves the daemon's socket over TLS, and counts the requests with each protocol.
type gateway struct {
	*httptest.Server
	major [3]atomic.Int64
}

func newGateway(t *testing.T, modern bool, p *pki, socket string) *gateway {
	t.Helper()
	upstream := &httputil.ReverseProxy{
		Transport: client.New(socket), FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/node1")
			r.Out.ProtoMajor = 1
		},
	}
	g := new(gateway)
	g.Server = serveTLS(t, modern, p.serverTLS(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.major[r.ProtoMajor].Add(1)
		upstream.ServeHTTP(w, r)
	}))
	return g
}

func mustClient(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	c, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// All that works on the socket works over TLS, with both versions of HTTP, and behind a prefix.
func TestOverTLS(t *testing.T) {
	for name, modern := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(testutil.ShortDir(t), "s")
			j := journal.New(journal.Options{})
			defer serve(t, j, socket)()
			add(j, config.ADD, "a", "b")
			p := newPKI(t, "ca")
			g := newGateway(t, modern, p, socket)
			c := mustClient(t, client.Config{Server: g.URL + "/node1/", TLSClientConfig: client.TLSClientConfig{CAFile: p.file(t, "ca", p.PEM)}})

			if s, err := c.Status(t.Context()); err != nil || s.Instance == "" {
				t.Errorf("Status: %v, %v", s, err)
			}
			if pods, err := c.Pods(t.Context()); err != nil || len(pods.Items) != 2 {
				t.Errorf("Pods: %v, %v", pods, err)
			}
			if _, err := c.Lookup(t.Context(), client.LookupQuery{PodUID: "a"}); err == nil || err.Error() != "this server answers no lookups" {
				t.Errorf("Lookup: %v", err)
			}
			for _, err := range c.History(t.Context(), client.HistoryOptions{}) {
				if !refusedWith(err, http.StatusNotFound) {
					t.Errorf("History: %v", err)
				}
			}
			resumesOver(t, c, j, g)
			cacheOver(t, c, j)
			if want := 1 + map[bool]int{true: 1}[modern]; g.major[want].Load() == 0 || g.major[3-want].Load() != 0 {
				t.Errorf("requests by version: %d HTTP/1.1, %d HTTP/2", g.major[1].Load(), g.major[2].Load())
			}
		})
	}
}

func refusedWith(err error, code int) bool {
	refused, ok := errors.AsType[*client.RefusedError](err)
	return ok && refused.Code == code
}

// resumesOver cuts the connection twice. Nothing is lost, and nothing comes twice.
func resumesOver(t *testing.T, c *client.Client, j *journal.Journal, g *gateway) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	var got []string
	for u, err := range c.Updates(ctx, client.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, show(u))
		switch len(got) {
		case 2: // the bookmark after the first pods
			g.CloseClientConnections()
			add(j, config.ADD, "c")
		case 3:
			add(j, config.ADD, "d")
		case 4:
			g.CloseClientConnections()
			add(j, config.REMOVE, "c")
		}
		if len(got) == 5 {
			break
		}
	}
	if want := []string{"ADD a b", "BOOKMARK synced", "ADD c", "ADD d", "REMOVE c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func cacheOver(t *testing.T, c *client.Client, j *journal.Journal) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 100)
	cache := client.NewCache(c, client.CacheOptions{OnChange: func(_, _ *v1.Pod) { changed <- struct{}{} }})
	var wg sync.WaitGroup
	wg.Go(func() { _ = cache.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	add(j, config.ADD, "e")
	for range 4 { // a, b, d, e
		select {
		case <-changed:
		case <-time.After(testutil.Patience):
			t.Fatalf("the cache has %d pods", len(cache.List()))
		}
	}
	if n := len(cache.List()); n != 4 {
		t.Errorf("the cache has %d pods, want 4", n)
	}
}

// A request keeps the form of its path, also behind a prefix.
func TestRoundTripKeepsThePath(t *testing.T) {
	p := newPKI(t, "ca")
	s := serveTLS(t, true, p.serverTLS(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.Host+" "+r.RequestURI)
	}))
	for prefix, want := range map[string]string{"": "GET HOST /a%2Fb/%C3%A4?x=1%2F", "/no%2Fde/": "GET HOST /no%2Fde/a%2Fb/%C3%A4?x=1%2F"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			c := mustClient(t, client.Config{Server: s.URL + prefix, TLSClientConfig: client.TLSClientConfig{CAData: p.PEM}})
			resp, err := (&http.Client{Transport: c}).Get("http://any/a%2Fb/%C3%A4?x=1%2F")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if want := strings.Replace(want, "HOST", s.Listener.Addr().String(), 1); err != nil || string(body) != want {
				t.Errorf("the server gets %q, %v, want %q", body, err, want)
			}
		})
	}
}

// guarded serves an empty status to those who may have it.
func guarded(allow func(r *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allow(r) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "Unauthorized\n")
			return
		}
		_, _ = io.WriteString(w, `{"nodeName":"node1"}`)
	})
}

// The files of credentials are read again.
func TestCredentialsChange(t *testing.T) {
	old, renewed := newPKI(t, "old"), newPKI(t, "new")
	var token atomic.Pointer[string]
	token.Store(new("first"))
	config := old.serverTLS(t)
	config.ClientAuth = tls.RequestClientCert
	var user atomic.Value
	s := serveTLS(t, true, config, guarded(func(r *http.Request) bool {
		if len(r.TLS.PeerCertificates) > 0 {
			user.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		}
		return r.Header.Get("Authorization") == "Bearer "+*token.Load()
	}))
	ca, file := old.file(t, "ca", old.PEM), old.file(t, "token", []byte("first\n"))
	cert, key := old.Issue(t, "alice")
	certFile, keyFile := old.file(t, "cert", cert), old.file(t, "key", key)
	c := mustClient(t, client.Config{
		Server: s.URL, BearerTokenFile: file,
		TLSClientConfig: client.TLSClientConfig{CAFile: ca, CertFile: certFile, KeyFile: keyFile},
	})
	check := func(want string) {
		t.Helper()
		if _, err := c.Status(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Lookup(t.Context(), client.LookupQuery{PID: 1}); err != nil { // over a kept connection
			t.Error(err)
		}
		if got := user.Load(); got != want {
			t.Errorf("the client certificate is of %v, want %s", got, want)
		}
	}
	check("alice")

	token.Store(new("second"))
	if _, err := c.Status(t.Context()); !refusedWith(err, http.StatusUnauthorized) || !strings.Contains(err.Error(), "the token in "+file+" is not accepted") {
		t.Errorf("with a token that is expired: %v", err)
	}
	old.file(t, "token", []byte("second"))
	cert, key = old.Issue(t, "bob")
	old.file(t, "cert", cert)
	old.file(t, "key", key)
	c.CloseIdleConnections()
	check("bob")

	// The server gets a certificate of another authority.
	s.Close()
	l, err := net.Listen("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(s.Config.Handler)
	_ = again.Listener.Close()
	again.Listener, again.TLS, again.Config.ErrorLog = l, renewed.serverTLS(t), log.New(io.Discard, "", 0)
	again.TLS.ClientAuth = tls.RequestClientCert
	again.StartTLS()
	defer again.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.HasSuffix(err.Error(), ": set --certificate-authority to the CA of the server") {
		t.Errorf("with a server of another authority: %v", err)
	}
	old.file(t, "ca", slices.Concat(old.PEM, renewed.PEM))
	check("bob")
}

// PODCONFIGD_SERVER comes before PODCONFIGD_SOCKET.
func TestDefaultServer(t *testing.T) {
	t.Setenv(client.SocketEnv, "/s")
	if got := client.DefaultServer(); got != "unix:///s" {
		t.Errorf("with %s: %s", client.SocketEnv, got)
	}
	t.Setenv(client.ServerEnv, "https://node1")
	if got := client.DefaultServer(); got != "https://node1" {
		t.Errorf("with %s: %s", client.ServerEnv, got)
	}
	t.Setenv(client.ServerEnv, "")
	t.Setenv(client.SocketEnv, "s")
	if got := client.DefaultServer(); !strings.HasPrefix(got, "unix:///") || filepath.Base(got) != "s" {
		t.Errorf("with a relative path: %s", got)
	}
}

// A request stays below the path of the address, also if its URL is opaque or has no slash first.
func TestRoundTripStaysBelowThePath(t *testing.T) {
	arrived := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.RequestURI }))
	defer server.Close()
	c, err := client.NewForConfig(client.Config{Server: server.URL + "/nodes/n1/proxy"})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []*url.URL{{Opaque: "//h/v1alpha1/release"}, {Scheme: "x", Opaque: "http://h/v1alpha1/release"}, {Path: "x/pods"}, {Path: "/pods", Opaque: "/other"}} {
		r := (&http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}}).WithContext(t.Context())
		resp, err := c.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if want := fmt.Sprintf("sending a request for %q: expected a path that begins with /", target); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", target, err, want)
		}
	}
	resp, err := c.RoundTrip((&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/pods"}, Header: http.Header{}}).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	close(arrived)
	for target := range arrived {
		if target != "/nodes/n1/proxy/pods" {
			t.Errorf("%s arrived", target)
		}
	}
}
