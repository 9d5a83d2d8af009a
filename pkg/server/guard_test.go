package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	authenticationv1 "k8s.io/api/authentication/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var served = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// tcpConn is a connection of a client with that address.
type tcpConn struct {
	net.Conn
	client string
}

func (tcpConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 254), Port: 10250} }

func (c tcpConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.client), Port: 50000} }

// ask makes a request over a connection of a client with that address, and returns the status.
func (g *guard) ask(address, token string) (code int) {
	r := httptest.NewRequest(http.MethodGet, "/pods", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	client := tcpConn{client: address}
	r = r.WithContext(conn.With(r.Context(), conn.New(client, client.LocalAddr(), nil, func() {})))
	w := httptest.NewRecorder()
	defer func() {
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // as net/http
			code = http.StatusTooManyRequests
		}
	}()
	g.guard(served).ServeHTTP(w, r)
	return w.Code
}

// Requests at the same time do not get around the limit of failures: while the apiserver is
// slow, an address can't make it review more tokens than when it is fast.
func TestFailuresAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reviews atomic.Int64
		answer := make(chan struct{})
		a, err := auth.New(auth.Options{TokenReview: true, Post: func(context.Context, string, []byte) ([]byte, error) {
			reviews.Add(1)
			<-answer
			return []byte("{}"), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		g := newGuard(a, newMetrics(nil))
		var all sync.WaitGroup
		codes := make(chan int, 1000)
		ask := func(token string) { all.Go(func() { codes <- g.ask("192.0.2.1", token) }) }
		for i := range 500 {
			ask(fmt.Sprint("wrong", i))
		}
		for range 500 {
			ask("wrong0")
		}
		synctest.Wait()
		if n := reviews.Load(); n > failureBurst {
			t.Errorf("%d reviews at a time, want at most %d", n, failureBurst)
		}
		if waiting := cap(codes) - len(codes); waiting > maxPending {
			t.Errorf("%d requests of one address wait, want at most %d", waiting, maxPending)
		}
		close(answer)
		all.Wait()
		if n := reviews.Load(); n > failureBurst {
			t.Errorf("%d reviews, want at most %d", n, failureBurst)
		}
		if code := g.ask("192.0.2.1", "other"); code != http.StatusTooManyRequests {
			t.Errorf("after the failures: %d", code)
		}
		<-time.After(time.Minute)
		if code := g.ask("192.0.2.1", "other"); code != http.StatusUnauthorized {
			t.Errorf("a minute later: %d", code)
		}
	})
}

// Clients behind one address, for example that of a node or a gateway, do not keep each other out:
// those whose credentials can be checked here pass.
func TestFailuresOfANeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte("inFile,alice,1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		reviews := 0
		a, err := auth.New(auth.Options{
			TokenFile: path, TokenReview: true, TokenTTL: time.Hour, AlwaysAllow: true,
			Post: func(_ context.Context, _ string, body []byte) ([]byte, error) {
				reviews++
				var review authenticationv1.TokenReview
				if err := json.Unmarshal(body, &review); err != nil {
					return nil, err
				}
				review.Status.Authenticated = review.Spec.Token == "reviewed"
				return json.Marshal(review)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		g := newGuard(a, newMetrics(nil))
		expect := func(token string, want int) {
			t.Helper()
			if code := g.ask("192.0.2.1", token); code != want {
				t.Errorf("%s: %d, want %d", token, code, want)
			}
		}
		expect("reviewed", http.StatusOK)
		for i := range failureBurst {
			expect(fmt.Sprint("wrong", i), http.StatusUnauthorized)
		}
		before := reviews
		expect("another", http.StatusTooManyRequests)
		expect("wrong1", http.StatusTooManyRequests)
		expect("inFile", http.StatusOK)
		expect("reviewed", http.StatusOK)
		if reviews != before {
			t.Errorf("%d more reviews", reviews-before)
		}
		if code := g.ask("192.0.2.2", "another"); code != http.StatusUnauthorized {
			t.Errorf("another address: %d", code)
		}
	})
}

// A token that was valid within the last hour is reviewed again whatever others of its address do, also while
// they wait for slow reviews. If it is no longer valid, it counts as any other.
func TestProvenTokensOfANeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		slow := make(chan struct{})
		a, err := auth.New(auth.Options{
			TokenReview: true, TokenTTL: time.Minute, AlwaysAllow: true,
			Post: func(ctx context.Context, _ string, body []byte) ([]byte, error) {
				var review authenticationv1.TokenReview
				if err := json.Unmarshal(body, &review); err != nil {
					return nil, err
				}
				if review.Spec.Token == "slow" {
					<-slow
				}
				review.Status.Authenticated = review.Spec.Token == "good" && !revoked.Load()
				return json.Marshal(review)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		g := newGuard(a, newMetrics(nil))
		const address = "192.0.2.1"
		expect := func(when, token string, want int) {
			t.Helper()
			if code := g.ask(address, token); code != want {
				t.Errorf("%s: %s: %d, want %d", when, token, code, want)
			}
		}
		expect("at first", "good", http.StatusOK)
		var waiting sync.WaitGroup
		for range maxPending {
			waiting.Go(func() { g.ask(address, "slow") })
		}
		synctest.Wait()
		<-time.After(2 * time.Minute) // the answer is not known any more
		for i := range 40 {
			waiting.Go(func() { g.ask(address, fmt.Sprint("wrong", i)) })
			expect("beside wrong tokens", "good", http.StatusOK)
			<-time.After(2 * time.Minute)
			for n := range 2 * failureBurst {
				g.ask(address, fmt.Sprint("bad", i, n))
			}
		}
		expect("beside wrong tokens", "unknown", http.StatusTooManyRequests)
		revoked.Store(true)
		<-time.After(2 * time.Minute)
		for n := range 2 * failureBurst {
			g.ask(address, fmt.Sprint("last", n))
		}
		expect("revoked", "good", http.StatusUnauthorized)
		expect("revoked again", "good", http.StatusTooManyRequests)
		close(slow)
		waiting.Wait()
		revoked.Store(false)
		<-time.After(2 * time.Minute)
		expect("valid again", "good", http.StatusOK)
		<-time.After(provenLonger)
		for n := range 2 * failureBurst {
			g.ask(address, fmt.Sprint("later", n))
		}
		expect("after more than an hour", "good", http.StatusTooManyRequests)
	})
}

// The same over TLS: a client with a token that was valid is served beside one of the same address that
// has used up the limit of failures. No answer is kept, so each request is reviewed.
func TestProvenTokensOverTLS(t *testing.T) {
	a, err := auth.New(auth.Options{
		TokenReview: true, AlwaysAllow: true,
		Post: func(_ context.Context, _ string, body []byte) ([]byte, error) {
			var review authenticationv1.TokenReview
			if err := json.Unmarshal(body, &review); err != nil {
				return nil, err
			}
			review.Status.Authenticated = review.Spec.Token == "good"
			return json.Marshal(review)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := serveHTTPSWith(t, a, conn.Limits{})
	good, bad := s.client(t, 2), s.client(t, 2)
	if code := s.do(t, good, "GET", "/pods", "good").code; code != http.StatusOK {
		t.Fatalf("at first: %d", code)
	}
	limited := 0
	for i := range 5 * failureBurst {
		if s.do(t, bad, "GET", "/pods", fmt.Sprint("bad", i)).code == http.StatusTooManyRequests {
			limited++
		}
		if code := s.do(t, good, "GET", "/pods", "good").code; code != http.StatusOK {
			t.Fatalf("beside %d wrong tokens: %d", i+1, code)
		}
	}
	if limited == 0 {
		t.Error("the wrong tokens were not limited")
	}
}

// provenLonger is longer than a token stays proven.
const provenLonger = time.Hour + time.Minute

// A client without credentials that does not read its answers holds little: beyond a number of
// requests of its address, the streams are reset.
func TestRefusalsThatNobodyReads(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	const conns, streams = 4, 200
	clients := make([]*h2, conns)
	for i := range clients {
		clients[i] = s.dialH2(t, 0)
	}
	before := runtime.NumGoroutine()
	for _, c := range clients {
		for i := range uint32(streams) {
			c.open(2*i+1, true, "GET", "/pods", "authorization", "Bearer wrong")
		}
		answered := make(map[uint32]bool)
		c.until("an answer on each stream", func(f http2.Frame) bool {
			switch f.(type) {
			case *http2.HeadersFrame, *http2.RSTStreamFrame:
				answered[f.Header().StreamID] = true
			}
			return len(answered) == streams
		})
	}
	testutil.Eventually(t, func() error { // those that are refused end after their answer
		if held := runtime.NumGoroutine() - before; held > maxRefusing+32 {
			return fmt.Errorf("%d requests without credentials hold %d goroutines, want at most %d", conns*streams, held, maxRefusing)
		}
		return nil
	})
}

// The same applies to requests with credentials beyond the limit of open requests.
func TestRequestsBeyondTheLimitThatNobodyReads(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{SubscribersPerPeer: 1})
	calls := &s.server.limits.Remote.Calls
	c := s.dialH2(t, 0)
	for i := range uint32(fewestOpenCalls) {
		c.call(2*i+1, podconfigd.PodConfig_Lookup_FullMethodName)
	}
	testutil.Until(t, "the requests are open", func() bool { return calls.InUse() == fewestOpenCalls })
	const conns, streams = 4, 200
	reset := 0
	for range conns {
		c := s.dialH2(t, 0)
		for i := range uint32(streams) {
			c.open(2*i+1, true, "GET", "/pods")
		}
		answered := make(map[uint32]bool)
		c.until("an answer on each stream", func(f http2.Frame) bool {
			switch f.(type) {
			case *http2.RSTStreamFrame:
				reset++
				answered[f.Header().StreamID] = true
			case *http2.HeadersFrame:
				answered[f.Header().StreamID] = true
			}
			return len(answered) == streams
		})
	}
	if least := conns*streams - maxRefusing; reset < least {
		t.Errorf("%d of %d requests were reset, want at least %d", reset, conns*streams, least)
	}
}
