package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// streamPaths are the streams of HTTP.
var streamPaths = []string{"/v1alpha1/updates", "/api/v1/pods?watch=true&allowWatchBookmarks=true"}

// request sends the head of a request, and more bytes in the same write.
func request(t *testing.T, conn net.Conn, path, then string) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n%s", path, then); err != nil {
		t.Fatal(err)
	}
}

// free waits until the only place for a subscriber is free.
func (d *daemon) free(t *testing.T) {
	t.Helper()
	testutil.Until(t, "the place is given back", func() bool {
		resp, err := d.http.Head("http://localhost/v1alpha1/updates")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// ended reads until the daemon has closed the connection.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(testutil.Patience))
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset by peer") {
		t.Fatalf("the stream goes on: %v", err)
	}
}

func eachStream(t *testing.T, test func(t *testing.T, d *daemon, path string)) {
	t.Helper()
	for _, path := range streamPaths {
		t.Run(strings.Split(path, "?")[0][1:], func(t *testing.T) {
			d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 1, Connections: 20})
			d.add("a", 1)
			test(t, d, path)
			d.free(t)
		})
	}
}

func TestAByteAfterTheRequestEndsAStream(t *testing.T) {
	eachStream(t, func(t *testing.T, d *daemon, path string) {
		t.Helper()
		for _, then := range []string{"x", "\n", "\r\n", "GET /pods HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
			together := d.dial(t)
			request(t, together, path, then)
			ended(t, together)
			d.free(t)

			later := d.dial(t)
			request(t, later, path, "")
			if _, err := io.ReadAtLeast(later, make([]byte, 200), 200); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(later, then)
			ended(t, later)
			d.free(t)
		}
	})
}

// A client that is gone does not count, whatever it sent before.
func TestAStreamEndsWithItsClient(t *testing.T) {
	eachStream(t, func(t *testing.T, d *daemon, path string) {
		t.Helper()
		for _, then := range []string{"", "x"} {
			gone := d.dial(t)
			request(t, gone, path, "")
			if _, err := io.ReadAtLeast(gone, make([]byte, 200), 200); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(gone, then)
			_ = gone.Close()
			d.free(t)
		}
		half := d.dial(t)
		request(t, half, path, "")
		if err := half.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		ended(t, half)
	})
}

// The same if it had not read the stream.
func TestAByteEndsAStreamThatNobodyReads(t *testing.T) {
	eachStream(t, func(t *testing.T, d *daemon, path string) {
		t.Helper()
		for i := range 32 {
			d.add(fmt.Sprint(i), 64<<10)
		}
		stuck, half := d.dial(t), d.dial(t)
		request(t, stuck, path, "")
		if _, err := stuck.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(stuck, "x")
		d.free(t)

		request(t, half, path, "")
		if _, err := half.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		if err := half.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	})
}

// Requests that are not streams can be pipelined, also before a stream on the same
// connection.
func TestRequestsBeforeAStreamOnItsConnection(t *testing.T) {
	eachStream(t, func(t *testing.T, d *daemon, path string) {
		t.Helper()
		conn := d.dial(t)
		fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\nHost: localhost\n\n"+
			"POST /v1alpha1/resync HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\na\r\n\r\nb")
		request(t, conn, path, "")
		var read strings.Builder
		_ = conn.SetReadDeadline(time.Now().Add(testutil.Patience))
		for buffer := make([]byte, 4096); !strings.Contains(read.String(), `"name":"a"`); {
			n, err := conn.Read(buffer)
			if err != nil {
				t.Fatalf("%v after %s", err, read.String())
			}
			read.Write(buffer[:n])
		}
		if n := strings.Count(read.String(), "\r\n\r\nok"); n != 2 {
			t.Errorf("%d answers of /livez in %s", n, read.String())
		}
		d.add("b", 1)
		if n, err := conn.Read(make([]byte, 4096)); n == 0 {
			t.Error(err)
		}
		_ = conn.Close()
	})
}
