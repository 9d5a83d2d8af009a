package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// docs/how-to/write-a-client.md says what a client gets that sends another Host than a host. net/http answers it before
// any handler.
func TestHostHeader(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	for host, want := range map[string]string{
		"Host: localhost\r\n": "200 ok",
		"Host: \r\n":          "200 ok",
		"Host: /run/podconfigd/podconfigd.sock\r\n": "400 400 Bad Request: malformed Host header",
		"": "400 400 Bad Request: missing required Host header",
	} {
		conn := d.dial(t)
		_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
		if _, err := fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\n%s\r\n", host); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", host, err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := fmt.Sprint(resp.StatusCode, " ", string(body)); err != nil || got != want || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%q: got %q, %v, want %q", host, got, err, want)
		}
	}
}
