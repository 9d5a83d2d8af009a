package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// inMemory serves a proxy on connections in memory until the end of the test.
func inMemory(t *testing.T, by http.RoundTripper) *testutil.Pipes {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := testutil.NewPipes()
	done := make(chan error)
	go func() { done <- Serve(ctx, l, by) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return l
}

// send sends the head of a request to a proxy, then the parts of its body, one every period. It returns the code
// of the answer, whether the connection closes, and how long it took.
func send(t *testing.T, l *testutil.Pipes, head string, period time.Duration, parts ...string) (code int, closes bool, took time.Duration) {
	t.Helper()
	start := time.Now()
	conn, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = io.WriteString(conn, head+"\r\nHost: localhost\r\n\r\n")
		for _, part := range parts {
			<-time.After(period)
			_, _ = io.WriteString(conn, part)
		}
	})
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	took = time.Since(start)
	_ = resp.Body.Close()
	_ = conn.Close()
	sending.Wait()
	return resp.StatusCode, resp.Close, took
}

// A body that does not come has an answer all the same, after bodyTimeout.
func TestMissingBodies(t *testing.T) {
	const review = "/apis/authorization.k8s.io/v1/self"
	for name, test := range map[string]struct {
		head string
		want int
		took time.Duration
	}{
		"write":            {"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nContent-Length: 100", http.StatusRequestTimeout, bodyTimeout},
		"read":             {"GET /pods HTTP/1.1\r\nContent-Length: 100", http.StatusRequestTimeout, bodyTimeout},
		"chunks":           {"POST /v1alpha1/resync HTTP/1.1\r\nTransfer-Encoding: chunked", http.StatusRequestTimeout, bodyTimeout},
		"expects continue": {"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 100", http.StatusMethodNotAllowed, 0},
		"review":           {"POST " + review + "subjectaccessreviews HTTP/1.1\r\nContent-Length: 100", http.StatusRequestTimeout, bodyTimeout},
		"review in chunks": {"POST " + review + "subjectrulesreviews/ HTTP/1.1\r\nTransfer-Encoding: chunked", http.StatusRequestTimeout, bodyTimeout},
		"no chunk":         {"POST /api/v1/pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno number", http.StatusBadRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := inMemory(t, roundTripper(func(r *http.Request) (*http.Response, error) {
					return nil, fmt.Errorf("%s %s reaches the daemon", r.Method, r.URL)
				}))
				code, closes, took := send(t, l, test.head, 0)
				if code != test.want || !closes || took != test.took {
					t.Errorf("got %d after %v, closed %t", code, took, closes)
				}
			})
		})
	}
}

// A client can take its time to send a body, up to bodyTimeout.
func TestABodyThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t, nil)
		code, _, took := send(t, l, "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nContent-Length: 2", bodyTimeout/2-time.Second, "a", "a")
		if code != http.StatusMethodNotAllowed || took != bodyTimeout-2*time.Second {
			t.Errorf("got %d after %v", code, took)
		}
	})
}

// A request that is refused has its answer, however long its body is, and whether its length is known.
func TestBodiesThatNobodyReads(t *testing.T) {
	d := newDaemon(t)
	address, _ := proxied(t, d.socket)
	body := bytes.Repeat([]byte("a"), 20<<20) // more than the buffers of a connection
	for _, test := range []struct {
		method, path string
		want         int
		sizes        []int
	}{
		{http.MethodPost, "/api/v1/namespaces/default/pods", http.StatusMethodNotAllowed, []int{1, 1000, 300_000, len(body)}},
		{http.MethodPatch, "/api/v1/namespaces/default/pods/a", http.StatusMethodNotAllowed, []int{300_000}},
		{http.MethodDelete, "/api/v1/namespaces/default/pods/a", http.StatusMethodNotAllowed, []int{300_000}},
		{http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", http.StatusMethodNotAllowed, []int{300_000}},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", http.StatusMethodNotAllowed, []int{1, 300_000}},
		{http.MethodPut, "/pods", http.StatusMethodNotAllowed, []int{300_000}},
		{http.MethodGet, "/pods", http.StatusBadRequest, []int{1, 1000, 300_000, len(body)}},
		{http.MethodPost, "/v1alpha1/resync", http.StatusMethodNotAllowed, []int{1, 300_000}},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			for _, size := range test.sizes {
				for _, sized := range []bool{true, false} {
					r := request(t, test.method, "http://"+address+test.path)
					r.Body = io.NopCloser(bytes.NewReader(body[:size]))
					if r.ContentLength = -1; sized {
						r.ContentLength = int64(size)
					}
					if got, message := do(t, r, once); got.StatusCode != test.want {
						t.Fatalf("%s %s, %d bytes, sized %v: got %d %s, want %d", test.method, test.path, size, sized, got.StatusCode, message, test.want)
					}
				}
			}
		})
	}
}
