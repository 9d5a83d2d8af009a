package auth

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The certificate of the server is reloaded, and a pair that does not fit leaves the last one.
func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, key any, cert []byte) {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		testutil.WriteFile(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
		testutil.WriteFile(t, filepath.Join(dir, name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	}
	first, err := SelfSigned("n1", []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	second, err := SelfSigned("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	put("tls", first.PrivateKey, first.Certificate[0])
	synctest.Test(t, func(t *testing.T) {
		get, err := CertificateFiles(Options{}.Logger, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		is := func(want *tls.Certificate) {
			t.Helper()
			if !bytes.Equal(get().Certificate[0], want.Certificate[0]) {
				t.Error("another certificate")
			}
		}
		is(first)
		put("tls", first.PrivateKey, second.Certificate[0]) // half of the change
		<-time.After(reloadInterval)
		is(first)
		put("tls", second.PrivateKey, second.Certificate[0])
		<-time.After(reloadInterval)
		is(second)
	})
	if _, err := CertificateFiles(Options{}.Logger, filepath.Join(dir, "no.crt"), filepath.Join(dir, "tls.key")); err == nil || !strings.Contains(err.Error(), "no.crt") {
		t.Errorf("a missing file: %v", err)
	}
}
