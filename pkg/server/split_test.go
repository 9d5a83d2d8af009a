package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// askOn makes a request on its own connection, which the answer ends.
func (d *daemon) askOn(t *testing.T, conn net.Conn, path string) (code int, body string, closes bool) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	request(t, conn, path, "")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, string(data), resp.Close
}

// Health is answered even if all connections are in use.
func TestHealthWhereAllConnectionsAreTaken(t *testing.T) {
	t.Parallel() // it waits
	for name, test := range map[string]struct {
		limits conn.Limits
		have   int
	}{
		"in all": {conn.Limits{Connections: 2}, 2}, "for the process": {conn.Limits{ConnectionsPerPeer: 2}, 2}, "by descriptors": {conn.Limits{Descriptors: 64}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			d := serveWithLimits(t, journal.Options{}, test.limits)
			d.add("a", 1)
			for range test.have {
				if code, _, _ := d.askOn(t, d.dial(t), "/livez"); code != http.StatusOK {
					t.Fatal(code)
				}
			}
			for path, want := range map[string]string{"/healthz": "ok", "/livez?verbose": "[+]syncloop ok", "/readyz": "ok"} {
				if code, body, closes := d.askOn(t, d.dial(t), path); code != http.StatusOK || !strings.Contains(body, want) || !closes {
					t.Errorf("%s: %d %s, closes: %v", path, code, body, closes)
				}
			}
			for _, path := range []string{"/pods", "/v1alpha1/updates", "/nothing"} {
				code, body, closes := d.askOn(t, d.dial(t), path)
				refused(t, code, body, "too many connections: ")
				if !closes {
					t.Errorf("%s: the connection stands", path)
				}
			}
			resp, err := d.http.Head("http://localhost/pods")
			if err != nil {
				t.Fatal(err)
			}
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("HEAD: %s", resp.Status)
			}
			conn := d.grpc(t, d.socket)
			testutil.Eventually(t, func() error { // it is updated each second
				answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
				if err == nil && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
					err = fmt.Errorf("health over gRPC: %v", answer)
				}
				return err
			})
			if _, err := podconfigd.NewPodConfigClient(conn).Status(t.Context(), &podconfigd.StatusRequest{}); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("Status over gRPC: %v", err)
			}
			d.fallSick("it stands still")
			if code, body, _ := d.askOn(t, d.dial(t), "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "it stands still") {
				t.Errorf("/readyz of the sick: %d %s", code, body)
			}
		})
	}
}

// The same over TCP.
func TestHealthWhereAllConnectionsOfTCPAreTaken(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	address := serveMetrics(t, New(Options{Gatherer: prometheus.NewRegistry(), Limits: conn.Limits{ScrapeConnections: 2}}))
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for range 2 {
		if code, _, closes := d.askOn(t, dial(), "/metrics"); code != http.StatusOK || closes {
			t.Fatal(code, closes)
		}
	}
	if code, _, closes := d.askOn(t, dial(), "/readyz"); code != http.StatusOK || !closes {
		t.Errorf("/readyz: %d, closes: %v", code, closes)
	}
	code, body, _ := d.askOn(t, dial(), "/metrics")
	refused(t, code, body, "too many connections: there are 2")
}

// Clients that connect and send nothing take no place from health.
func TestHealthBesideIdleConnections(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	address := serveMetrics(t, New(Options{Gatherer: prometheus.NewRegistry(), Limits: conn.Limits{ScrapeConnections: 2}}))
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for range 2 + 3*refusalsOfScrapes {
		dial()
	}
	for range 3 {
		if code, _, closes := d.askOn(t, dial(), "/livez"); code != http.StatusOK || !closes {
			t.Errorf("/livez: %d, closes: %v", code, closes)
		}
	}
}
