package http

import (
	"bufio"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// rawSite is a server that answers with any bytes.
type rawSite struct {
	URL    string
	answer atomic.Pointer[func(w net.Conn)]
	// most is the largest number of bytes that a client received of one answer.
	most atomic.Int64
}

// newRawSite serves the answer, which includes status line and headers, and then closes
// the connection.
func newRawSite(t *testing.T, answer func(w net.Conn)) *rawSite {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawSite{URL: "http://" + listener.Addr().String()}
	s.set(answer)
	var mu sync.Mutex
	var conns []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				if _, err := nethttp.ReadRequest(bufio.NewReader(conn)); err == nil {
					(*s.answer.Load())(&counter{Conn: conn, most: &s.most})
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return s
}

func (s *rawSite) set(answer func(w net.Conn)) { s.answer.Store(&answer) }

// counter counts the bytes of one answer.
type counter struct {
	net.Conn
	written int64
	most    *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written += int64(n)
	for {
		most := c.most.Load()
		if c.written <= most || c.most.CompareAndSwap(most, c.written) {
			return n, err
		}
	}
}

// whole returns an answer with the body.
func whole(body string) func(w net.Conn) {
	return func(w net.Conn) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

// forever writes the text until the connection fails.
func forever(w io.Writer, text string) {
	buffer := []byte(strings.Repeat(text, max(1, 4096/len(text))))
	for {
		if _, err := w.Write(buffer); err != nil {
			return
		}
	}
}

// drip writes the text byte by byte until the connection fails. Its waits are shorter
// than the timeout of these tests.
func drip(w io.Writer, text string) {
	for {
		for i := range len(text) {
			if _, err := io.WriteString(w, text[i:i+1]); err != nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// For any answer, the source soon reports an error, receives few bytes, keeps its pods,
// and continues when the server recovers. Meanwhile it may ask any number of times.
func TestHostileAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	// The maximum number of bytes of an answer, including the kernel's buffers on both sides: Linux has 36 MiB for
	// a client that reads fast, and then stands still.
	const headers, body = 8 << 20, 64 << 20
	var bomb strings.Builder // a MiB in a KiB; any number of them is one file
	z := gzip.NewWriter(&bomb)
	if _, err := io.WriteString(z, strings.Repeat("\n", 1<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, because string
		answer        func(w net.Conn)
		most          int64
	}{
		{"an endless body", "10 MiB", func(w net.Conn) { forever(w, ok+"\r\n") }, body},
		{"an endless body in chunks", "10 MiB", func(w net.Conn) {
			_, _ = io.WriteString(w, chunked)
			forever(w, "100\r\n"+strings.Repeat("a: 1\n...", 32)+"\r\n")
		}, body},
		{"a body of any length that is announced", "10 MiB", func(w net.Conn) {
			_, _ = io.WriteString(w, ok+"Content-Length: 9223372036854775807\r\n\r\n")
			forever(w, " ")
		}, body},
		{"a body byte by byte", "no complete answer within 500ms", func(w net.Conn) {
			_, _ = io.WriteString(w, ok+"\r\n")
			drip(w, "a: 1\n")
		}, headers},
		{"a header byte by byte", "no complete answer within 500ms", func(w net.Conn) {
			drip(w, ok+"A: "+strings.Repeat("x", 1000))
		}, headers},
		{"no answer", "no complete answer within 500ms", func(w net.Conn) {
			_, _ = io.Copy(io.Discard, w)
		}, headers},
		{"a gzip bomb", "10 MiB", func(w net.Conn) {
			_, _ = io.WriteString(w, ok+"Content-Encoding: gzip\r\n\r\n")
			forever(w, bomb.String())
		}, headers},
		{"endless headers", "response headers", func(w net.Conn) {
			_, _ = io.WriteString(w, ok)
			forever(w, "A: b\r\n")
		}, headers},
		{"an endless header", "response headers", func(w net.Conn) {
			_, _ = io.WriteString(w, ok+"A: ")
			forever(w, "b")
		}, headers},
		{"an endless status", "response headers", func(w net.Conn) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 ")
			forever(w, "OK")
		}, headers},
		{"endless interim answers", "", func(w net.Conn) {
			forever(w, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		}, headers},
		{"an endless trailer", "", func(w net.Conn) {
			_, _ = io.WriteString(w, chunked+"4\r\na: 1\r\n0\r\n")
			forever(w, "A: b\r\n")
		}, headers},
		{"endless chunk extensions", "", func(w net.Conn) {
			_, _ = io.WriteString(w, chunked)
			forever(w, "1;"+strings.Repeat("a", 1000)+"\r\n\n\r\n")
		}, body},
		{"no HTTP", "malformed", func(w net.Conn) { _, _ = io.WriteString(w, "220 mail ready\r\n\r\n") }, headers},
		{"a long status that is none of ours", "the server answered 500", func(w net.Conn) {
			fmt.Fprintf(w, "HTTP/1.1 500 %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("x", 60_000))
		}, headers},
		{"a redirect to a file", "unsupported protocol scheme", func(w net.Conn) {
			_, _ = io.WriteString(w, "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")
		}, headers},
		{"a redirect to nowhere", "302", func(w net.Conn) {
			_, _ = io.WriteString(w, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n")
		}, headers},
		{"a redirect with an endless body", "redirected 10 times", func(w net.Conn) {
			_, _ = io.WriteString(w, "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n")
			forever(w, " ")
		}, headers},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newRawSite(t, whole(single("web", "1")))
			timeout := time.Duration(0)
			switch {
			case strings.Contains(test.because, "500ms"):
				timeout = 500 * time.Millisecond
			case test.because == "10 MiB": // a busy machine takes long to read them
				timeout = testutil.Patience
			}
			h := run(t, Options{URL: s.URL, timeout: timeout})
			h.expect("web=1")
			s.set(test.answer)
			h.degraded(test.because)
			if n := s.most.Load(); n > test.most {
				t.Errorf("%d bytes of an answer were taken", n)
			}
			if n := len(h.source.Status().LastError); n > 3000 {
				t.Errorf("the error has %d bytes", n)
			}
			s.set(whole(single("web", "2")))
			h.expect("web=2")
		})
	}
}

// The same over HTTP/2.
func TestEndlessHeadersOverHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("it was asked with %s", r.Proto)
		}
		for i := range 5000 {
			w.Header().Set(fmt.Sprint("A", i), strings.Repeat("b", 1000))
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = discard
	s.StartTLS()
	defer s.Close()
	run(t, Options{URL: s.URL, CAFile: caFile(t, s)}).degraded("")
}

// Redirects to new servers each time leave no connections open.
func TestRedirectsLeaveNoConnections(t *testing.T) {
	var open atomic.Int32
	var sites []*httptest.Server
	for i := range 9 {
		s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			if i > 0 {
				nethttp.Redirect(w, r, sites[i-1].URL, nethttp.StatusFound)
				return
			}
			_, _ = io.WriteString(w, single("web", "1"))
		}))
		s.Config.ConnState = func(_ net.Conn, state nethttp.ConnState) {
			switch state {
			case nethttp.StateNew:
				open.Add(1)
			case nethttp.StateClosed, nethttp.StateHijacked:
				open.Add(-1)
			case nethttp.StateActive, nethttp.StateIdle:
			}
		}
		s.Start()
		t.Cleanup(s.Close)
		sites = append(sites, s)
	}
	h := run(t, Options{URL: sites[8].URL, Period: time.Hour})
	h.expect("web=1")
	deadline := time.Now().Add(testutil.Patience)
	for open.Load() > 2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open", open.Load())
		}
		<-time.After(10 * time.Millisecond)
	}
}

// If a server asks for a wait of a century, the next request comes after an hour.
func TestRetryAfterACentury(t *testing.T) {
	s := newSite(t, false)
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Retry-After", "3155760000")
		w.WriteHeader(nethttp.StatusServiceUnavailable)
	})
	var log logged
	runWith(t, log.context(), Options{URL: s.URL}).degraded("503")
	log.await(t, `"retryIn"="1h0m0s"`)
}

// caFile writes the server's certificate to a file.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
