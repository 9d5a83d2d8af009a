package http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Headers and token are sent only to the URL's own host.
func TestSecretsStayAtHome(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := newSite(t, false)
	other.serve(single("web", "1"))
	home := newSite(t, false)
	home.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, other.URL+"/elsewhere", nethttp.StatusFound)
	})
	header := nethttp.Header{"X-Secret": {"s3cret-header"}, "Authorization": {"s3cret-auth"}}
	target := strings.Replace(home.URL, "http://", "http://user:s3cret-password@", 1) + "/?key=s3cret-query"
	h := run(t, Options{URL: target, Header: header, BearerTokenFile: token})
	h.expect("web=1")
	requests, _ := home.seen()
	if r := requests[0]; r.Header.Get("X-Secret") != "s3cret-header" || r.Header.Get("Authorization") != "Bearer s3cret-token" || r.URL.RawQuery != "key=s3cret-query" {
		t.Errorf("home was asked %s with %v", r.URL, r.Header)
	}
	requests, _ = other.seen()
	for _, r := range requests {
		if dump := fmt.Sprint(r.Header, r.URL); strings.Contains(dump, "s3cret") {
			t.Errorf("the other host was asked with %s", dump)
		}
	}
	if err := os.WriteFile(token, []byte("new-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.await("the new token", func(v1alpha1.SourceStatus) bool {
		requests, _ := home.seen()
		return requests[len(requests)-1].Header.Get("Authorization") == "Bearer new-token"
	})
	home.Close()
	h.degraded("refused")
	if status, _ := json.Marshal(h.source.Status()); strings.Contains(string(status), "s3cret") {
		t.Errorf("the status has a secret in it: %s", status)
	}
}

func TestCertificates(t *testing.T) {
	s := newSite(t, true)
	s.serve(single("web", "1"))
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	write := func(path string, blocks ...*pem.Block) {
		var data []byte
		for _, b := range blocks {
			data = append(data, pem.EncodeToMemory(b)...)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, &pem.Block{Type: "CERTIFICATE", Bytes: selfSigned(t).cert})
	h := run(t, Options{URL: s.URL, CAFile: ca})
	h.degraded("certificate signed by unknown authority")
	write(ca, &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	h.expect("web=1")
	if err := os.WriteFile(ca, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.degraded("no certificate in " + ca)
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	h.degraded("reading the credentials")
}

type keyPair struct{ cert, key []byte }

func selfSigned(t *testing.T) keyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{cert, der}
}

func TestClientCertificatesAreReadAgain(t *testing.T) {
	s := &site{}
	var serials []string
	s.Server = httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		s.mu.Lock()
		serials = append(serials, string(r.TLS.PeerCertificates[0].Raw))
		s.mu.Unlock()
		_, _ = io.WriteString(w, single("web", "1"))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = discard
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	put := func() keyPair {
		pair := selfSigned(t)
		if err := errors.Join(
			os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.cert}), 0o600),
			os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: pair.key}), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		return pair
	}
	put()
	h := run(t, Options{URL: s.URL, CAFile: ca, CertFile: cert, KeyFile: key})
	h.expect("web=1")
	renewed := put()
	h.await("the new certificate", func(v1alpha1.SourceStatus) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return serials[len(serials)-1] == string(renewed.cert)
	})
}
