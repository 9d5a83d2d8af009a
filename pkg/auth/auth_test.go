package auth

import (
	"bytes"
	"context"
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
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/podconfigd/podconfigd/internal/testutil"
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

// apiserver answers reviews. It knows the token "good", and allows get of nodes/pods to everybody.
type apiserver struct {
	mu     sync.Mutex
	asked  map[string]int
	bodies []string
	fail   error
}

func (s *apiserver) post(_ context.Context, path string, body []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]int)
	}
	s.asked[path]++
	s.bodies = append(s.bodies, string(body))
	if s.fail != nil {
		return nil, s.fail
	}
	switch path {
	case tokenReviews:
		var review authenticationv1.TokenReview
		if err := json.Unmarshal(body, &review); err != nil {
			return nil, err
		}
		if review.Spec.Token == "good" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: "sa", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
			}}
		}
		return json.Marshal(review)
	case accessReviews:
		var review authorizationv1.SubjectAccessReview
		if err := json.Unmarshal(body, &review); err != nil {
			return nil, err
		}
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = a.Verb == "get" && a.Subresource == "pods" && a.Name == "n1" && a.Resource == "nodes"
		return json.Marshal(review)
	}
	return nil, fmt.Errorf("%s is not expected", path)
}

func TestReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiserver{}
		a, err := New(Options{NodeName: "n1", TokenReview: true, TokenTTL: 2 * time.Minute, AllowTTL: 5 * time.Minute, DenyTTL: 30 * time.Second, Post: server.post})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 10 { // at the same time: one review
			all.Go(func() { shows(t, a, withToken("good"), "sa g system:authenticated") })
		}
		all.Wait()
		shows(t, a, withToken("bad"), "")
		shows(t, a, withToken("bad"), "")
		if n := server.asked[tokenReviews]; n != 2 {
			t.Errorf("%d reviews of two tokens", n)
		}
		<-time.After(2*time.Minute + time.Second)
		shows(t, a, withToken("good"), "sa g system:authenticated")
		if n := server.asked[tokenReviews]; n != 3 {
			t.Errorf("%d reviews after the TTL", n)
		}

		u := &user.DefaultInfo{Name: "sa", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
		check := func(verb string, allowed bool, subresources ...string) {
			t.Helper()
			err := a.Authorize(t.Context(), u, Attributes{Verb: verb, Subresources: subresources})
			var forbidden *ForbiddenError
			if (err == nil) != allowed || err != nil && !errors.As(err, &forbidden) {
				t.Errorf("%s %v: %v", verb, subresources, err)
			}
		}
		check("get", true, "pods", "proxy")
		check("get", true, "pods", "proxy")
		if n := server.asked[accessReviews]; n != 1 {
			t.Errorf("%d reviews of one access", n)
		}
		check("get", false, "healthz", "proxy")
		check("create", false, "proxy")
		check("create", false, "proxy")
		if n := server.asked[accessReviews]; n != 4 {
			t.Errorf("%d reviews, want 4", n)
		}
		<-time.After(31 * time.Second) // what is denied is known for a shorter time
		check("create", false, "proxy")
		check("get", true, "pods")
		if n := server.asked[accessReviews]; n != 5 {
			t.Errorf("%d reviews, want 5", n)
		}
		if last := server.bodies[len(server.bodies)-1]; !strings.Contains(last, `"extra":{"k":["v"]}`) || !strings.Contains(last, `"groups":["g"]`) {
			t.Errorf("the review is %s", last)
		}
	})
}

// If the apiserver can't be asked, nobody gets in, and the next request asks again.
func TestReviewsThatFail(t *testing.T) {
	server := &apiserver{fail: errors.New("connection refused")}
	a, err := New(Options{NodeName: "n1", TokenReview: true, TokenTTL: time.Minute, AllowTTL: time.Minute, DenyTTL: time.Minute, Post: server.post})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(withToken("good")); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthorized) {
		t.Errorf("%v", err)
	}
	u := &user.DefaultInfo{Name: "sa"}
	err = a.Authorize(t.Context(), u, Attributes{Verb: "get", Subresources: []string{"pods", "proxy"}})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	server.fail = nil
	shows(t, a, withToken("good"), "sa g system:authenticated")
	if err := a.Authorize(t.Context(), u, Attributes{Verb: "get", Subresources: []string{"pods", "proxy"}}); err != nil {
		t.Error(err)
	}
}

func TestAlwaysAllow(t *testing.T) {
	a, err := New(Options{AlwaysAllow: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Authorize(t.Context(), &user.DefaultInfo{Name: "x"}, AttributesOf("POST", "/v1alpha1/release")); err != nil {
		t.Error(err)
	}
}

// A self-signed certificate is replaced before it expires.
func TestSelfSignedCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		get, err := SelfSignedCertificates(Options{}.Logger, "n1", nil)
		if err != nil {
			t.Fatal(err)
		}
		first := get()
		if get() != first {
			t.Error("another certificate at once")
		}
		<-time.After(selfSignedFor - selfSignedRenewal + time.Hour)
		second := get()
		if second == first || time.Until(second.Leaf.NotAfter) < selfSignedFor-time.Hour {
			t.Errorf("the certificate ends at %v", second.Leaf.NotAfter)
		}
	})
}

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
