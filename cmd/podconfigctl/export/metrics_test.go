package export

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Who connects to the metrics and sends nothing, or does not read, is disconnected.
func TestTheMetricsAreServedInTime(t *testing.T) {
	for name, request := range map[string]string{"no request": "", "no more requests": "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, server := testutil.NewPipes(), metricsServer(prometheus.NewRegistry())
				go func() { _ = server.Serve(l) }()
				conn, err := l.Dial()
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := conn.Write([]byte(request)); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(conn)
				if waited := time.Since(began); err != nil || waited > idleTimeout+time.Second {
					t.Errorf("got %q, %v after %v", answer, err, waited)
				}
				_ = server.Close()
			})
		})
	}
}
