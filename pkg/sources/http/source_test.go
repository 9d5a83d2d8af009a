package http

import (
	"compress/gzip"
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
	"io"
	"math/big"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// item returns a pod as an item of a list.
func item(name, image string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":%q}]}}`, name, image)
}

func list(items ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}

func single(name, image string) string {
	return strings.Replace(item(name, image), "{", `{"apiVersion":"v1","kind":"Pod",`, 1)
}

// site is a server whose answers the test sets.
type site struct {
	*httptest.Server
	mu       sync.Mutex
	answer   nethttp.HandlerFunc
	requests []*nethttp.Request
	statuses []int
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	nethttp.ResponseWriter
	status int
}

func (r *statusRecorder) Unwrap() nethttp.ResponseWriter { return r.ResponseWriter }

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func newSite(t *testing.T, secure bool) *site {
	t.Helper()
	s := &site{}
	handler := nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		recorder := &statusRecorder{ResponseWriter: w, status: nethttp.StatusOK}
		answer(recorder, r)
		s.mu.Lock()
		s.requests, s.statuses = append(s.requests, r), append(s.statuses, recorder.status)
		s.mu.Unlock()
	})
	s.Server = httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = discard
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *site) set(answer nethttp.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// serve answers with the body from now on.
func (s *site) serve(body string) {
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, body) })
}

func (s *site) seen() (requests []*nethttp.Request, statuses []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(requests, s.requests...), append(statuses, s.statuses...)
}

// harness is a running source.
type harness struct {
	t      *testing.T
	source *Source
	sets   chan config.SourceSet
}

// endsWithin is the maximum time until Run ends: a moment, and much less than any
// timeout, on a busy machine.
const endsWithin = 5 * time.Second

func run(t *testing.T, opts Options) *harness {
	t.Helper()
	return runWith(t, context.Background(), opts)
}

// runWith is run with a context that has the test's logger.
func runWith(t *testing.T, ctx context.Context, opts Options) *harness {
	t.Helper()
	if opts.Decoder == nil {
		opts.Decoder = manifest.NewDecoder("node1")
	}
	if opts.Period == 0 {
		opts.Period = 5 * time.Millisecond
	}
	source, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, source: source, sets: make(chan config.SourceSet)}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := source.Run(ctx, h.sets); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(func() {
		begin := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(begin); took > endsWithin {
			t.Errorf("Run took %v to end", took)
		}
	})
	return h
}

// expect waits for a set of these pods, "name=image".
func (h *harness) expect(want ...string) []*v1.Pod {
	h.t.Helper()
	select {
	case set := <-h.sets:
		var got []string
		for _, p := range set.Pods {
			got = append(got, strings.TrimSuffix(p.Name, "-node1")+"="+p.Spec.Containers[0].Image)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			h.t.Fatalf("got %v, want %v", got, want)
		}
		return set.Pods
	case <-time.After(testutil.Patience):
		h.t.Fatalf("no set for %v, want %v; status %+v", testutil.Patience, want, h.source.Status())
		return nil
	}
}

// await waits until the status matches the function. No set may come.
func (h *harness) await(what string, ok func(v1alpha1.SourceStatus) bool) {
	h.t.Helper()
	deadline := time.After(testutil.Patience)
	for !ok(h.source.Status()) {
		select {
		case set := <-h.sets:
			h.t.Fatalf("waiting for %s: a set of %d pods came", what, len(set.Pods))
		case <-deadline:
			h.t.Fatalf("%s: not within %v; status %+v", what, testutil.Patience, h.source.Status())
		case <-time.After(time.Millisecond):
		}
	}
}

func (h *harness) degraded(because string) {
	h.t.Helper()
	h.await("degraded for "+because, func(s v1alpha1.SourceStatus) bool {
		return s.Degraded && s.DegradedSince != nil && strings.Contains(s.LastError, because)
	})
}

func TestAPodAndAPodList(t *testing.T) {
	s := newSite(t, false)
	s.serve(single("web", "1"))
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	s.serve("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: web}\n  spec: {containers: [{name: c, image: '2'}]}\n- metadata: {name: db}\n  spec: {containers: [{name: c, image: '1'}]}\n")
	first := h.expect("db=1", "web=2")
	s.serve(list(item("web", "3"), item("db", "1")))
	if second := h.expect("db=1", "web=3"); second[0] != first[0] {
		t.Error("db is another pointer, though nothing in it changed")
	}
	s.serve(list())
	h.expect()
}

// For any failure, the last pods stay, and the status has the error until an answer is
// good.
func TestFailuresHoldTheLastSet(t *testing.T) {
	huge := strings.Repeat("x", manifest.MaxLength)
	for _, test := range []struct {
		name, because string
		answer        nethttp.HandlerFunc
	}{
		{"no length", "the answer is empty", func(nethttp.ResponseWriter, *nethttp.Request) {}},
		{"a 500", "500 Internal", func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusInternalServerError) }},
		{"a 404", "404 Not Found", func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusNotFound) }},
		{"a 304 nobody asked for", "304 Not Modified", func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusNotModified) }},
		{"garbage", "neither YAML nor JSON", func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, "a: [") }},
		{"a Service", "expected apiVersion v1, kind Pod", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`)
		}},
		{"no items", "items: Required", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"PodList"}`)
		}},
		{"too large", "10 MiB", func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, huge) }},
		{"cut off", "unexpected EOF", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
			_ = nethttp.NewResponseController(w).Flush()
			panic(nethttp.ErrAbortHandler)
		}},
		{"a redirect loop", "redirected 10 times", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			nethttp.Redirect(w, r, "/", nethttp.StatusFound)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, false)
			s.serve(single("web", "1"))
			h := run(t, Options{URL: s.URL})
			h.expect("web=1")
			s.set(test.answer)
			h.degraded(test.because)
			s.serve(single("web", "2"))
			h.expect("web=2")
			h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded && s.LastError == "" })
		})
	}
}

// A failure at the start sends nothing: the source is not seen.
func TestAFailureAtTheStartSendsNothing(t *testing.T) {
	s := newSite(t, false)
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusServiceUnavailable) })
	h := run(t, Options{URL: s.URL})
	h.degraded("503")
	s.serve(list())
	h.expect()
}

// A → failure → A, and A → garbage → garbage: nothing is lost, and garbage is not stored
// as read.
func TestWhatWasServedBeforeComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for polls")
	}
	s := newSite(t, false)
	s.serve(single("web", "1"))
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	s.serve("")
	h.degraded("empty")
	s.serve(single("web", "1"))
	h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
	s.serve("a: [")
	h.degraded("neither")
	_, before := s.seen()
	h.await("more requests", func(st v1alpha1.SourceStatus) bool {
		_, now := s.seen()
		return len(now) > len(before) && st.Degraded
	})
	s.serve(list())
	h.expect()
	s.serve(single("web", "1"))
	h.expect("web=1")
}

func TestEachItemIsJudgedForItself(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1"), item("b", "1")))
	h := run(t, Options{URL: s.URL})
	h.expect("a=1", "b=1")
	verdict := func(name string, state v1alpha1.ManifestState, message string) func(v1alpha1.SourceStatus) bool {
		return func(s v1alpha1.SourceStatus) bool {
			for _, v := range s.HTTP.Manifests {
				if strings.HasPrefix(v.Path+v.Name, name) && v.State == state && strings.Contains(v.Message, message) {
					return true
				}
			}
			return false
		}
	}
	s.serve(list(item("a", "2"), `{"metadata":{"name":"b"},"spec":{}}`, `{"metadata":{"name":"c"},"spec":{"containers":5}}`))
	h.expect("a=2", "b=1")
	h.await("b held", verdict("b", v1alpha1.ManifestHeld, "spec.containers: Required value; its last good pod is kept"))
	h.await("c rejected", verdict("c-node1", v1alpha1.ManifestRejected, "spec.containers"))
	s.serve(list(item("a", "3"), item("b", "2"), item("a", "4")))
	h.expect("a=3", "b=2")
	h.await("the second a shadowed", verdict("items[2]a-node1", v1alpha1.ManifestShadowed, "the pod's name is taken by an earlier item"))
	// An item without a readable name may be the missing pod.
	s.serve(list(item("a", "5"), `"what"`))
	h.expect("a=5", "b=2")
	h.await("b held", verdict("b", v1alpha1.ManifestHeld, "can't be read"))
	s.serve(list(item("a", "5")))
	h.expect("a=5")
	uid := func(name string) string {
		return strings.Replace(item(name, "1"), `"name":`, `"uid":"u","name":`, 1)
	}
	s.serve(list(uid("x"), uid("y")))
	h.expect("x=1")
	h.await("y shadowed", verdict("y-node1", v1alpha1.ManifestShadowed, "the pod's UID is taken by default/x"))
}

func TestConditionalRequests(t *testing.T) {
	s := newSite(t, false)
	version := "1"
	handler := func(w nethttp.ResponseWriter, r *nethttp.Request) {
		s.mu.Lock()
		now := version
		s.mu.Unlock()
		w.Header().Set("ETag", `"`+now+`"`)
		w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
		if r.Header.Get("If-None-Match") == `"`+now+`"` {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, single("web", now))
	}
	s.set(handler)
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	h.await("some 304", func(v1alpha1.SourceStatus) bool {
		_, statuses := s.seen()
		return len(statuses) > 5 && statuses[len(statuses)-1] == nethttp.StatusNotModified
	})
	s.mu.Lock()
	version = "2"
	s.mu.Unlock()
	h.expect("web=2")
	// Garbage with a validator is not remembered: the next request is not answered
	// with a 304 for it.
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("ETag", `"garbage"`)
		if r.Header.Get("If-None-Match") == `"garbage"` {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "a: [")
	})
	h.degraded("neither")
	s.set(handler)
	h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
}

func TestGzip(t *testing.T) {
	s := newSite(t, false)
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			w.WriteHeader(nethttp.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, single("web", "1"))
		_ = z.Close()
	})
	run(t, Options{URL: s.URL}).expect("web=1")
}

// After failures, the source waits longer each time, but never longer than its period: a server that is well
// again is read as soon as by the kubelet. The server can ask for more.
func TestBackoff(t *testing.T) {
	for _, period := range []time.Duration{500 * time.Millisecond, DefaultPeriod, time.Hour} {
		s, err := New(Options{URL: "http://127.0.0.1:1", Decoder: manifest.NewDecoder("node1"), Period: period})
		if err != nil {
			t.Fatal(err)
		}
		backoff, full := retries, time.Second
		for failures := 1; failures < 100; failures++ {
			if pause := s.pause(&backoff, answer{}); pause < min(full/2, period) || pause > min(full, period) {
				t.Errorf("period %v, after %d failures: %v, want %v to %v", period, failures, pause, min(full/2, period), min(full, period))
			}
			full = min(2*full, time.Minute)
		}
		if pause := s.pause(&backoff, answer{retryAfter: 2 * time.Hour}); pause != 2*time.Hour {
			t.Errorf("asked for two hours, it waits %v", pause)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	asked := make(chan time.Time, 2)
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		asked <- time.Now()
		s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			asked <- time.Now()
			_, _ = io.WriteString(w, list())
		})
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(nethttp.StatusTooManyRequests)
	})
	run(t, Options{URL: s.URL, Period: time.Hour}).expect()
	first := <-asked
	if waited := (<-asked).Sub(first); waited < time.Second {
		t.Errorf("the next attempt came after %v", waited)
	}
}

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

func TestNewRefuses(t *testing.T) {
	for _, opts := range []Options{
		{URL: "ftp://example.com"}, {URL: "example.com/pods"}, {URL: "http://"}, {URL: "http://exa mple"},
		{URL: "http://example.com", CertFile: "only"},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
	for _, target := range []string{"ftp://user:s3cret@example.com?key=s3cret", "https://user:s3cr%et@example.com/?key=s3cret"} {
		if _, err := New(Options{URL: target}); err == nil || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("the error has a secret in it: %v", err)
		}
	}
}

// A server that does not answer fails after the timeout, and does not delay the end of
// Run.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h := run(t, Options{URL: "http://" + l.Addr().String()})
	conn, err := l.Accept() // the source sends its request, and run's cleanup measures the end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if h.source.Status().Degraded {
		t.Error("degraded before the time was up")
	}
}

// A file server's Last-Modified does not hide an older file that replaces a newer one. It
// hides one of the same time only for some requests.
func TestAnOlderFileInTheNewersPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pods.yaml")
	put := func(image string, modified time.Time) {
		temp := filepath.Join(t.TempDir(), "temp")
		if err := errors.Join(
			os.WriteFile(temp, []byte(single("web", image)), 0o600), os.Chtimes(temp, modified, modified), os.Rename(temp, path),
		); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, false)
	files := nethttp.FileServer(nethttp.Dir(dir))
	s.set(files.ServeHTTP)
	now := time.Now()
	put("2", now.Add(-time.Hour))
	h := run(t, Options{URL: s.URL + "/pods.yaml"})
	h.expect("web=2")
	h.await("some 304", func(v1alpha1.SourceStatus) bool {
		_, statuses := s.seen()
		return len(statuses) > 5 && statuses[len(statuses)-1] == nethttp.StatusNotModified
	})
	put("1", now.Add(-2*time.Hour))
	h.expect("web=1")
	put("3", now.Add(-2*time.Hour))
	h.expect("web=3")
}

func TestValidatorsThatCanBeReliedOn(t *testing.T) {
	const date, old = "Sat, 21 Nov 2026 00:01:00 GMT", "Sat, 21 Nov 2026 00:00:00 GMT"
	for name, test := range map[string]struct {
		etag, modified, date string
		want                 validator
	}{
		"none":                           {"", "", date, validator{}},
		"ETag":                           {`"e"`, "", date, validator{etag: `"e"`}},
		"ETag and an old modification":   {`"e"`, old, date, validator{etag: `"e"`}},
		"an old modification":            {"", old, date, validator{modified: old}},
		"ETag and a recent modification": {`"e"`, "Sat, 21 Nov 2026 00:00:59 GMT", date, validator{}},
		"a recent modification":          {"", "Sat, 21 Nov 2026 00:00:59 GMT", date, validator{}},
		"no date":                        {`"e"`, old, "", validator{}},
	} {
		t.Run(name, func(t *testing.T) {
			header := nethttp.Header{"Etag": {test.etag}, "Last-Modified": {test.modified}, "Date": {test.date}}
			if got := validatorOf(header); got != test.want {
				t.Errorf("%+v: %+v", test, got)
			}
		})
	}
}

// A 304 without the same time proves nothing. The body is requested.
func TestNotModifiedWithoutATime(t *testing.T) {
	s := newSite(t, false)
	version := "1"
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		s.mu.Lock()
		now := version
		s.mu.Unlock()
		w.Header().Set("Last-Modified", "Sat, 21 Nov 2020 00:00:00 GMT")
		_, _ = io.WriteString(w, single("web", now))
	})
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	s.mu.Lock()
	version = "2"
	s.mu.Unlock()
	h.expect("web=2")
	h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
}

// For any sequence of bodies, the pods in the set have distinct names and UIDs. A bad
// body changes nothing, and neither does a repeated one.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(list(item("a", "1"), item("b", "1"))), []byte(list(item("a", "2"), `{"metadata":{"name":"b"}}`)))
	f.Add([]byte(list(item("a", "1"), item("a", "2"))), []byte(list("{}", item("b", "1"))))
	f.Add([]byte(single("a", "1")), []byte(""))
	f.Add([]byte(list(`{"metadata":{"name":"a","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		`{"metadata":{"name":"b","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)), []byte(list()))
	decoder := manifest.NewDecoder("node")
	f.Fuzz(func(t *testing.T, first, second []byte) {
		pods := newPodSet()
		for _, body := range [][]byte{first, second, first, second} {
			before := pods.serving()
			items, err := decoder.DecodeURL("http://example.com/", body)
			if err != nil {
				continue
			}
			changed, err := pods.apply(t.Context(), body, items, nil)
			now := pods.serving()
			if err != nil && changed {
				t.Errorf("it can't be used, and changes something: %v", err)
			}
			if changed == slices.Equal(before, now) {
				t.Errorf("changed %t, from %d pods to %d", changed, len(before), len(now))
			}
			names, uids := make(map[string]bool), make(map[types.UID]bool)
			for _, p := range now {
				if names[p.Namespace+"/"+p.Name] || uids[p.UID] || p.UID == "" {
					t.Errorf("pod %s/%s, UID %q, is there twice", p.Namespace, p.Name, p.UID)
				}
				names[p.Namespace+"/"+p.Name], uids[p.UID] = true, true
			}
			if items, err = decoder.DecodeURL("http://example.com/", body); err != nil {
				t.Errorf("the same body again: %v", err)
			} else if changed, _ := pods.apply(t.Context(), body, items, nil); changed {
				t.Error("the same body again changes something")
			}
			if got := len(pods.verdicts().Shown()); got < len(now) {
				t.Errorf("%d verdicts on %d pods", got, len(now))
			}
		}
	})
}

// Of two pods with one UID, one that is in the last answer counts, whatever their names are. The status says
// of the other that its UID is taken.
func TestAMissingPodGivesWayToOneWithItsUID(t *testing.T) {
	for _, names := range [][2]string{{"a", "z"}, {"z", "a"}} {
		pods := newPodSet()
		gone, present := names[0], names[1]
		apply := func(items ...string) {
			t.Helper()
			all, err := manifest.NewDecoder("node1").DecodeURL("http://x", []byte(list(items...)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pods.apply(t.Context(), nil, all, nil); err != nil {
				t.Fatal(err)
			}
		}
		item := func(name string) string {
			return `{"metadata":{"name":"` + name + `","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
		}
		const nameless = `{"metadata":{"name":5}}`
		apply(item(gone))
		apply(item(present), nameless) // the missing pod may be the one whose name can't be read
		if got := pods.serving(); len(got) != 1 || got[0].Name != present+"-node1" {
			t.Errorf("%s comes, %s is missing: %d pods count, the first is %s", present, gone, len(got), got[0].Name)
		}
		for _, v := range pods.verdicts().Shown() {
			switch {
			case v.Name == present+"-node1" && v.State != v1alpha1.ManifestAccepted,
				v.Name == gone+"-node1" && (v.State != v1alpha1.ManifestShadowed || !strings.Contains(v.Message, "default/"+present)):
				t.Errorf("verdict %+v", v)
			}
		}
	}
}
