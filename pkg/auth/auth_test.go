package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func withToken(token string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r.WithContext(context.Background())
}

// shows checks the user of a request; empty for none.
func shows(t *testing.T, a *Auth, r *http.Request, want string) {
	t.Helper()
	got := ""
	u, err := a.Authenticate(r)
	if err == nil {
		groups := slices.Clone(u.GetGroups())
		slices.Sort(groups)
		got = u.GetName() + " " + strings.Join(groups, " ")
	} else if !errors.Is(err, ErrUnauthorized) {
		t.Errorf("%v is not ErrUnauthorized", err)
	}
	if got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestTokenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := testutil.WriteFile(t, filepath.Join(t.TempDir(), "tokens"), "s3cret,alice,1\nt0ken,bob,2,\"g1,g2\"\n")
		a, err := New(Options{TokenFile: path})
		if err != nil {
			t.Fatal(err)
		}
		shows(t, a, withToken("s3cret"), "alice system:authenticated")
		shows(t, a, withToken("t0ken"), "bob g1 g2 system:authenticated")
		shows(t, a, withToken("S3cret"), "")
		shows(t, a, withToken(""), "")

		testutil.WriteFile(t, path, "other,carol,3\n")
		shows(t, a, withToken("s3cret"), "alice system:authenticated") // read at most once a second
		<-time.After(reloadInterval)
		shows(t, a, withToken("s3cret"), "")
		shows(t, a, withToken("other"), "carol system:authenticated")

		for _, bad := range []string{"other\n", "\"", ",x,1\n"} {
			testutil.WriteFile(t, path, bad)
			<-time.After(reloadInterval)
			shows(t, a, withToken("other"), "carol system:authenticated") // the last good file
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		<-time.After(reloadInterval)
		shows(t, a, withToken("other"), "carol system:authenticated")
		testutil.WriteFile(t, path, "")
		<-time.After(reloadInterval)
		shows(t, a, withToken("other"), "")
	})
}

// The errors name the file and the line, and never have a token.
func TestBadTokenFiles(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"s3cret,alice":                        "line 1: 2 columns",
		"a,b,1\n\ns3cret\n":                   "line 3: 1 columns",
		",alice,1":                            "line 1: the token is empty",
		"s3cret,,1":                           "line 1: the user is empty",
		"s3cret,a,1\ns3cret,b,2\n":            "line 2: the token is on another line too",
		"s3cret\"x,alice,1":                   "line 1: bare",
		"\"s3cret,alice,1":                    "line 1: extraneous or missing",
		strings.Repeat("s3cret,a,1\n", 200e3): "at most 1048576 bytes",
	} {
		t.Run(want, func(t *testing.T) {
			path := testutil.WriteFile(t, filepath.Join(dir, "tokens"), content)
			_, err := New(Options{TokenFile: path})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%.20q: %v, want %s", content, err, want)
			}
		})
	}
	if _, err := New(Options{ClientCAFile: testutil.WriteFile(t, filepath.Join(dir, "ca"), "no PEM")}); err == nil || !strings.Contains(err.Error(), "ca: ") {
		t.Errorf("a file without certificates: %v", err)
	}
}

// issuer issues certificates.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.cert, i.key = i.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return i
}

func (i *issuer) issue(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (i *issuer) client(t *testing.T, name string, groups ...string) *http.Request {
	t.Helper()
	cert, _ := i.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	r := withToken("")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	return r
}

func (i *issuer) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw}))
}

// Certificates are verified for each request, so that a change of the CA has an effect on open
// connections.
func TestClientCertificates(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	path := testutil.WriteFile(t, filepath.Join(t.TempDir(), "ca"), first.pem())
	a, err := New(Options{ClientCAFile: path})
	if err != nil {
		t.Fatal(err)
	}
	mine, other := first.client(t, "alice", "g"), second.client(t, "mallory", "system:masters")
	shows(t, a, mine, "alice g system:authenticated")
	shows(t, a, other, "")
	shows(t, a, first.client(t, ""), "")
	expired, _ := first.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "late"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	})
	ofServer, _ := first.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for _, cert := range []*x509.Certificate{expired, ofServer} {
		r := withToken("")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		shows(t, a, r, "")
	}
	testutil.WriteFile(t, path, second.pem())
	a.clientCAs.checked = time.Now().Add(-reloadInterval)
	shows(t, a, mine, "")
	shows(t, a, other, "mallory system:authenticated system:masters")
}

func TestAnonymous(t *testing.T) {
	path := testutil.WriteFile(t, filepath.Join(t.TempDir(), "tokens"), "s3cret,alice,1\n")
	a, err := New(Options{TokenFile: path, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, a, withToken(""), "system:anonymous system:unauthenticated")
	shows(t, a, withToken("wrong"), "") // as the kubelet: wrong credentials are not anonymous
	shows(t, a, withToken("s3cret"), "alice system:authenticated")
}
