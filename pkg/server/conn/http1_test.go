package conn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Each part of a stream is one write, whatever its size, and net/http ends the response.
func TestEachPartIsOneWrite(t *testing.T) {
	for version, chunked := range map[string]bool{"HTTP/1.1": true, "HTTP/1.0": false} {
		t.Run(version, func(t *testing.T) {
			parts := []string{"one\n", strings.Repeat("x", 3000), strings.Repeat("y", 60000), ""}
			client := serveParts(t, parts)
			if _, err := io.WriteString(client, "GET / "+version+"\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			writes := 0 // a read from a socket of packets returns what was written at once
			for into := make([]byte, 1<<17); !chunked || !strings.HasSuffix(all.String(), "\r\n0\r\n\r\n"); writes++ {
				n, err := client.Read(into)
				if err != nil || n == 0 {
					break // HTTP/1.0 ends with the connection
				}
				all.Write(into[:n])
			}
			if want := 1 + 3 + 1; chunked && writes != want {
				t.Errorf("%d writes, want %d: the header, each part and the end", writes, want)
			}
			response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(all.String())), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != strings.Join(parts, "") {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
}

// serveParts serves a stream of the parts on a socket of packets, and returns a client of it.
func serveParts(t *testing.T, parts []string) net.Conn {
	t.Helper()
	l, err := net.Listen("unixpacket", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("unixpacket", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	c := newConn(accepted, l.Addr(), nil, func() {})
	c.http1 = true
	side := &side{addr: l.Addr(), conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	side.conns <- c
	server := &http.Server{ //nolint:gosec // the client is the test
		ConnContext: With,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			for out := StreamWriter(w, r); len(parts) > 0; parts = parts[1:] {
				_ = http.NewResponseController(w).Flush()
				if _, err := io.WriteString(out, parts[0]); err != nil {
					t.Error(err)
				}
			}
			if w := From(r.Context()).bytesWritten(); w < 63004 {
				t.Errorf("%d bytes are counted", w)
			}
		}),
	}
	served := make(chan error)
	go func() { served <- server.Serve(side) }()
	side.close = func() { close(side.closed) }
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		<-served
	})
	return client
}

// After a part of a chunk, the connection ends: its client would take the end of the response, and the next response, as data.
func TestNothingFollowsAPartOfAChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		defer client.Close()
		l := testutil.NewPipes()
		c := newConn(accepted, l.Addr(), nil, func() {})
		c.http1 = true
		server := &http.Server{ //nolint:gosec // the client is the test
			ConnContext: With,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				_ = control.Flush()
				respond.Within(w, time.Second)
				if _, err := io.WriteString(StreamWriter(w, r), strings.Repeat("x", 1000)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the part ended with %v", err)
				}
				respond.Within(w, time.Minute)
			}),
		}
		side := &side{addr: l.Addr(), conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		side.conns <- c
		side.close = sync.OnceFunc(func() { close(side.closed) })
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(side) })
		defer serving.Wait()
		defer server.Close()
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReaderSize(client, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := response.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		_ = client.SetReadDeadline(time.Now().Add(time.Hour))
		if rest, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the stream ends with %q and %v", rest, err)
		}
	})
}
