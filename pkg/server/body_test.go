package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A client that announces a body and does not send it gets an answer at once.
func TestMissingBodiesAreAnsweredAtOnce(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ListTimeout: time.Hour}, func(o *Options) {
		o.Resync = func(context.Context, string, string) error { return nil }
	})
	d.add("a", 1)
	for line, want := range map[string]int{
		"POST /pods":             http.StatusMethodNotAllowed,
		"POST /v1alpha1/updates": http.StatusMethodNotAllowed,
		"PUT /v1alpha1/status":   http.StatusMethodNotAllowed,
		"PATCH /nothing":         http.StatusMethodNotAllowed,
		"DELETE /healthz":        http.StatusMethodNotAllowed,
		"OPTIONS /":              http.StatusMethodNotAllowed,
		"POST /v1alpha1/resync?namespace=default":        http.StatusBadRequest,
		"POST /v1alpha1/resync?namespace=default&name=a": http.StatusOK,
		"PUT /v1alpha1/resync?namespace=default&name=a":  http.StatusMethodNotAllowed,
		"POST /api/v1/namespaces/default/pods":           http.StatusMethodNotAllowed,
		"DELETE /api/v1/namespaces/default/pods/a":       http.StatusMethodNotAllowed,
		"GET /pods":             http.StatusBadRequest,
		"GET /v1alpha1/updates": http.StatusBadRequest,
	} {
		t.Run(line, func(t *testing.T) {
			for _, body := range []string{
				"Content-Length: 100\r\n\r\n", "Content-Length: 100\r\n\r\n{", "Content-Length: 1000000000\r\n\r\n{",
				"Transfer-Encoding: chunked\r\n\r\n5\r\n{", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
			} {
				if got := ask(t, d.dial(t), line, body)(); got != want {
					t.Errorf("%q: %d, want %d", body, got, want)
				}
			}
		})
	}
}

// ask sends a request with the rest of its header and some of its body. The answer is its
// status code, or 0 if the connection ends without one.
func ask(t *testing.T, conn net.Conn, line, rest string) (answer func() int) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\n%s", line, rest); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(testutil.Patience))
	return func() int {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

// The same holds for the other sockets and for connections beyond the limit.
func TestMissingBodiesElsewhere(t *testing.T) {
	const body = "Content-Length: 100\r\n\r\n{"
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ListTimeout: time.Hour})
	pods, err := net.Dial("unix", d.pods)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pods.Close() })
	if got := ask(t, pods, "POST /pods", body)(); got != http.StatusNotFound {
		t.Errorf("the socket of the Pods API: %d", got)
	}
	full := serveWithLimits(t, journal.Options{}, conn.Limits{ConnectionsPerPeer: 1})
	held := full.dial(t)
	request(t, held, "/livez", "")
	if _, err := held.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, full.dial(t), "POST /pods", body)(); got != http.StatusTooManyRequests {
		t.Errorf("a connection beyond the limit: %d", got)
	}
	var options Options
	serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { options = *o })
	metrics, err := net.Dial("tcp", serveMetrics(t, New(Options{Gatherer: options.Gatherer, Limits: conn.Limits{ListTimeout: time.Hour}})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = metrics.Close() })
	if got := ask(t, metrics, "POST /metrics", body)(); got != http.StatusMethodNotAllowed {
		t.Errorf("metrics: %d", got)
	}
	if got := ask(t, metrics, "POST /metrics", body)(); got != 0 {
		t.Errorf("the rest of the body was taken for a request: %d", got)
	}
}

// A client beyond the limit is answered, too, if the machine stands still while the server does it.
func TestRefusalsAfterAStandstill(t *testing.T) {
	t.Parallel() // it waits
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ConnectionsPerPeer: 1}, func(o *Options) {
		o.Live = []Check{{Name: "slow", Check: func() error {
			<-time.After(2 * conn.RefusalTime)
			return nil
		}}}
	})
	held := d.dial(t)
	request(t, held, "/version", "")
	if _, err := held.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, d.dial(t), "GET /livez", "\r\n")(); got != http.StatusOK {
		t.Errorf("a connection beyond the limit: %d", got)
	}
}
