package export

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	service "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podconfigd/podconfigd/test/components"
)

func accept(context.Context, *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
	return nil, nil
}

// A load balancer can keep the connection of a Collector that is gone. The next request is sent over a new one.
func TestAConnectionThatIsLostInSilence(t *testing.T) {
	defer func(before time.Duration) { exportTimeout = before }(exportTimeout)
	exportTimeout = 500 * time.Millisecond // short: it is what is tested
	behind := serveCollector(t, insecure.NewCredentials(), accept)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { front.Close() })
	serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := front.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { pass(conn, behind, n == 0) })
		}
	})
	to, err := (&collectorFlags{address: "http://" + front.Addr().String()}).dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.conn.Close() })
	if _, err := to.export(t.Context(), "node1", nil); err == nil {
		t.Fatal("a request that was lost is acknowledged")
	}
	exportTimeout = time.Minute
	if _, err := to.export(t.Context(), "node1", nil); err != nil {
		t.Error(err)
	}
}

// pass passes a connection on. If it is lost, it passes on only what comes back.
func pass(conn net.Conn, address string, lost bool) {
	defer conn.Close()
	behind, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var passing sync.WaitGroup
	defer passing.Wait()
	defer behind.Close()
	passing.Go(func() { _, _ = io.Copy(conn, behind) })
	if lost {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	_, _ = io.Copy(behind, conn)
}

// The CA of the Collector is replaced while the command runs.
func TestTheCAIsReplaced(t *testing.T) {
	was, is, path := components.NewAuthority(t, "old"), components.NewAuthority(t, "new"), filepath.Join(t.TempDir(), "ca.crt")
	pair, err := tls.X509KeyPair(is.Issue(t, "collector"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, was.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	address := serveCollector(t, credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}), accept)
	to, err := (&collectorFlags{address: "https://" + address, caFile: path}).dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.conn.Close() })
	for _, step := range []struct {
		ca []byte
		ok bool
	}{{was.PEM, false}, {nil, false}, {is.PEM, false}, {is.PEM, true}} { // an unreadable CA is an error, and the connection of before stays
		if err := os.WriteFile(path, step.ca, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := to.export(t.Context(), "node1", nil); (err == nil) != step.ok {
			t.Errorf("with the CA %.10s: got %v", step.ca, err)
		}
	}
}
