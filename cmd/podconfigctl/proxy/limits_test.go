package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ask sends a GET on a connection that stays open.
func ask(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET /pods HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
}

// statusOf reads an answer.
func statusOf(conn net.Conn) (code int, err error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Requests beyond the limit are refused at once, over HTTP and gRPC. A request that ends gives its
// place to the next one.
func TestRequestsAreLimited(t *testing.T) {
	begun := make(chan struct{}, maxRequests)
	address, _ := proxiedBy(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		begun <- struct{}{}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}))
	conns := make([]net.Conn, maxRequests)
	for i := range conns {
		conns[i] = dial(t, address)
		t.Cleanup(func() { _ = conns[i].Close() })
		ask(t, conns[i])
	}
	for range maxRequests {
		<-begun
	}
	code, answer := sendHTTP1(t, address, http.MethodGet, "/pods", "")
	if want := fmt.Sprintf("podconfigctl proxy has %d requests at a time, which is its limit", maxRequests); code != http.StatusTooManyRequests || !strings.Contains(answer, want) {
		t.Errorf("a further request: %d %s", code, answer)
	}
	_, _, trailer := sendHTTP2(t, address, http.MethodPost, "/v1alpha1.Pods/ListPods", "", "content-type", "application/grpc", "te", "trailers")
	if trailer["grpc-status"] != "8" || trailer["retry-after"] != "1" {
		t.Errorf("a further call: %v", trailer)
	}
	_ = conns[0].Close()
	testutil.Eventually(t, func() error {
		conn := dial(t, address)
		t.Cleanup(func() { _ = conn.Close() })
		ask(t, conn)
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // short: no answer comes
		if code, err := statusOf(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("after one ended: %d, %w", code, err)
		}
		return nil
	})
}

// Connections beyond the limit wait for one that ends.
func TestConnectionsAreLimited(t *testing.T) {
	address, _ := proxiedBy(t, roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, nil
	}))
	conns := make([]net.Conn, maxConnections)
	for i := range conns {
		conns[i] = dial(t, address)
		t.Cleanup(func() { _ = conns[i].Close() })
		ask(t, conns[i])
		if code, err := statusOf(conns[i]); code != http.StatusOK {
			t.Fatalf("connection %d: %d, %v", i, code, err)
		}
	}
	further := dial(t, address)
	defer further.Close()
	ask(t, further)
	_ = further.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // short: no answer comes
	if code, err := statusOf(further); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a further connection: %d, %v", code, err)
	}
	_ = further.SetReadDeadline(time.Now().Add(testutil.Patience))
	_ = conns[0].Close()
	if code, err := statusOf(further); code != http.StatusOK {
		t.Errorf("after one ended: %d, %v", code, err)
	}
}

// Bodies have a largest size, whether they say it or not. None of them passes. However long a busy
// machine takes for one, the proxy sees no time pass.
func TestSizesOfBodies(t *testing.T) {
	for _, test := range []struct {
		path string
		size int
		want int
	}{
		{"/api/v1/pods", maxBody, http.StatusMethodNotAllowed},
		{"/api/v1/pods", maxBody + 1, http.StatusRequestEntityTooLarge},
	} {
		t.Run(fmt.Sprintf("%s %d bytes", test.path, test.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := inMemory(t, roundTripper(func(r *http.Request) (*http.Response, error) {
					t.Errorf("%s %s passes", r.Method, r.URL)
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				}))
				for _, modern := range []bool{true, false} {
					sized := modern == (test.size == maxBody+1) // each version with both, and a large body only once
					by := &http.Transport{DisableKeepAlives: true, Protocols: new(http.Protocols)}
					by.DialContext = func(context.Context, string, string) (net.Conn, error) { return l.Dial() }
					by.Protocols.SetHTTP1(!modern)
					by.Protocols.SetUnencryptedHTTP2(modern)
					r := request(t, http.MethodPost, "http://localhost"+test.path)
					r.Body = io.NopCloser(io.LimitReader(zeros{}, int64(test.size)))
					if r.ContentLength = -1; sized {
						r.ContentLength = int64(test.size)
					}
					if resp, err := by.RoundTrip(r); err == nil { // a client that still writes can miss the answer
						if _ = resp.Body.Close(); resp.StatusCode != test.want {
							t.Errorf("sized %v, HTTP/2 %v: got %d, want %d", sized, modern, resp.StatusCode, test.want)
						}
					} else if test.want != http.StatusRequestEntityTooLarge {
						t.Errorf("sized %v, HTTP/2 %v: %v", sized, modern, err)
					}
					by.CloseIdleConnections()
				}
			})
		})
	}
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) { clear(into); return len(into), nil }
