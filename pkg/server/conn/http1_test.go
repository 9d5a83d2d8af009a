package conn

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
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
