package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
)

func TestConnectionErrors(t *testing.T) {
	p, other := newPKI(t, "ca"), newPKI(t, "other")
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", map[bool]string{true: "https://elsewhere/"}[code/100 == 3])
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	secure := func(h http.Handler) string { return serveTLS(t, true, p.serverTLS(t), h).URL }
	mutual := p.serverTLS(t)
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	mutual.ClientCAs.AppendCertsFromPEM(p.PEM)
	strict := serveTLS(t, true, mutual, answer(200, "{}")).URL
	plain := httptest.NewServer(answer(404, "<html>"))
	defer plain.Close()
	readOnly := httptest.NewServer(answer(403, `{"message":"this address is read-only"}`))
	defer readOnly.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cert, key := other.Issue(t, "eve")
	trusted := client.TLSClientConfig{CAData: p.PEM}
	eve := client.TLSClientConfig{CAData: p.PEM, CertFile: other.file(t, "eve.crt", cert), KeyFile: other.file(t, "eve.key", key)}
	forbidden := `{"kind":"Status","message":"Forbidden (user=web, verb=get, resource=nodes, subresource=pods)"}`

	tests := map[string]struct {
		config client.Config
		want   []string
	}{
		"nobody listens":     {client.Config{Server: "https://" + closed.Addr().String()}, []string{"connecting to https://127.0.0.1:", "connection refused: is podconfigd running there, with this address in --listen?"}},
		"unknown name":       {client.Config{Server: "https://node1.invalid:1"}, []string{"connecting to https://node1.invalid:1: ", "the name is unknown: check the address in --server or PODCONFIGD_SERVER"}},
		"unknown authority":  {client.Config{Server: secure(answer(200, "{}"))}, []string{"certificate signed by unknown authority: set --certificate-authority to the CA of the server"}},
		"another name":       {client.Config{Server: secure(answer(200, "{}")), TLSClientConfig: client.TLSClientConfig{CAData: p.PEM, ServerName: "node1"}}, []string{"set --tls-server-name, for example to localhost, if this is the server"}},
		"no client cert":     {client.Config{Server: strict, TLSClientConfig: trusted}, []string{"connecting to https://127.0.0.1:", ": set --token-file, or --client-certificate and --client-key"}},
		"another CA's cert":  {client.Config{Server: strict, TLSClientConfig: eve}, []string{"the client certificate " + eve.CertFile + " is not accepted: is it from a CA in --client-ca-file of podconfigd?"}},
		"http, not https":    {client.Config{Server: strings.Replace(plain.URL, "http", "https", 1)}, []string{"server gave HTTP response to HTTPS client: use http:// in the address"}},
		"https, not http":    {client.Config{Server: strings.Replace(strict, "https", "http", 1)}, []string{"GET http://127.0.0.1:", "/v1alpha1/status: 400 Bad Request: use https:// in the address"}},
		"another server":     {client.Config{Server: plain.URL}, []string{"GET http://127.0.0.1:", "/v1alpha1/status: 404 Not Found"}},
		"redirect":           {client.Config{Server: secure(answer(302, "")), TLSClientConfig: trusted}, []string{"302 Found: the server redirects to https://elsewhere/: is this the address of podconfigd?"}},
		"401, no token":      {client.Config{Server: secure(answer(401, "Unauthorized")), TLSClientConfig: trusted}, []string{"/v1alpha1/status: 401 Unauthorized: set --token-file, or --client-certificate and --client-key"}},
		"401, token":         {client.Config{Server: secure(answer(401, "Unauthorized")), BearerToken: "t", TLSClientConfig: trusted}, []string{"401 Unauthorized: the token is not accepted: is it expired?"}},
		"403":                {client.Config{Server: secure(answer(403, forbidden)), BearerToken: "t", TLSClientConfig: trusted}, []string{"GET https://127.0.0.1:", "/v1alpha1/status: Forbidden (user=web, verb=get, resource=nodes, subresource=pods)"}},
		"403, no token":      {client.Config{Server: secure(answer(403, forbidden)), TLSClientConfig: trusted}, []string{"subresource=pods): set --token-file, or --client-certificate and --client-key"}},
		"403, http":          {client.Config{Server: readOnly.URL}, []string{"GET http://127.0.0.1:", "/v1alpha1/status: this address is read-only"}},
		"the daemon refuses": {client.Config{Server: secure(answer(400, `{"message":"bad"}`)), TLSClientConfig: trusted}, []string{"bad"}},
	}
	_ = closed.Close() // no other server gets its port
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := mustClient(t, test.config).Status(t.Context())
			for i, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) || i == len(test.want)-1 && !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%s: the error is %v, want %q", name, err, want)
				}
			}
		})
	}

	// A certificate that can't be verified ends the stream. Only the first one: see retries.
	for _, err := range mustClient(t, client.Config{Server: strict}).Updates(t.Context(), client.Options{}) {
		if err == nil {
			t.Error("an update from an unknown server")
		}
	}
}

func TestInvalidConfig(t *testing.T) {
	p := newPKI(t, "ca")
	cert, key := p.Issue(t, "alice")
	_, otherKey := p.Issue(t, "bob")
	certFile, keyFile := p.file(t, "cert", cert), p.file(t, "key", otherKey)
	none, empty := filepath.Join(p.dir, "none"), p.file(t, "empty", []byte("\n"))
	for _, test := range []struct {
		config client.Config
		want   string
	}{
		{client.Config{}, `server "": expected https://HOST:PORT, http://HOST:PORT or unix:///PATH`},
		{client.Config{Server: "node1:10250"}, `server "node1:10250": expected https://HOST:PORT`},
		{client.Config{Server: "/run/s"}, `server "/run/s": expected https://HOST:PORT`},
		{client.Config{Server: "unix://s"}, `server "unix://s": expected an absolute path, for example unix:///run/podconfigd/podconfigd.sock`},
		{client.Config{Server: "https://"}, `the host is missing: expected https://HOST:PORT`},
		{client.Config{Server: "https://a:b@node1"}, `server "https://a:xxxxx@node1": a URL with a user is not supported`},
		{client.Config{Server: "https://a:b%@node1"}, `server "https://xxxxx@node1": invalid URL escape "%"`},
		{client.Config{Server: "https://a:b@node1:port"}, `server "https://xxxxx@node1:port": invalid port ":port" after host`},
		{client.Config{Server: "https://node1/?x=1"}, "a URL with a query or a fragment is not supported"},
		{client.Config{Server: "https://node1:port"}, `server "https://node1:port": invalid port ":port" after host`},
		{client.Config{Server: "http://node1", BearerToken: "t"}, `server "http://node1": a bearer token requires an address that begins with https://`},
		{client.Config{Server: "unix:///s", TLSClientConfig: client.TLSClientConfig{CAFile: none}}, `server "unix:///s": a setting of TLS requires an address that begins with https://`},
		{client.Config{Server: "https://node1", BearerTokenFile: none}, "reading the bearer token: open " + none + ": no such file or directory"},
		{client.Config{Server: "https://node1", BearerTokenFile: empty}, "reading the bearer token: " + empty + " is empty"},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CAFile: none}}, "reading the certificate authority: open " + none},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CAFile: empty}}, empty + " has no certificate in PEM"},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CAFile: empty, Insecure: true}}, "a CA has no effect on a connection whose certificate is not verified"},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CertFile: certFile}}, "a client certificate requires its key, and a key its certificate: set both"},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CertData: cert, KeyFile: none}}, "reading the client key: open " + none},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CertFile: none, KeyData: key}}, "reading the client certificate: open " + none},
		{client.Config{Server: "https://node1", TLSClientConfig: client.TLSClientConfig{CertFile: certFile, KeyFile: keyFile}}, "client certificate " + certFile + " with key " + keyFile + ": tls: private key does not match public key"},
	} {
		t.Run(test.want, func(t *testing.T) {
			if _, err := client.NewForConfig(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// After updates were delivered, a client whose credentials are not accepted for a while waits.
func TestUnauthorizedForAWhile(t *testing.T) {
	p := newPKI(t, "ca")
	requests := 0
	s := serveTLS(t, true, p.serverTLS(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests {
		case 2:
			w.WriteHeader(http.StatusUnauthorized)
		case 3:
			w.WriteHeader(http.StatusInternalServerError)
		case 4, 5, 6:
			_, _ = io.WriteString(w, `{"op":"BOOKMARK","instance":"i","revision":3}`)
		case 7:
			w.WriteHeader(http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, `{"op":"BOOKMARK","instance":"i","revision":1}`)
		}
	}))
	c := mustClient(t, client.Config{Server: s.URL, BearerToken: "t", TLSClientConfig: client.TLSClientConfig{CAData: p.PEM}})
	updates := 0
	var last error
	for _, err := range c.Updates(t.Context(), client.Options{}) {
		if last = err; err == nil {
			updates++
		}
	}
	if updates != 4 || !refusedWith(last, http.StatusForbidden) {
		t.Errorf("%d updates, and then: %v", updates, last)
	}
}
