package server

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
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// posting has a server take the requests that change something.
func posting(o *Options) {
	o.Resync = func(context.Context, string, string) error { return nil }
	o.Release = func(context.Context, string, *int) error { return nil }
}

// serveLocal serves a journal also on a loopback address.
func serveLocal(t *testing.T, limits Limits, change ...func(*Options)) (d *daemon, address string) {
	t.Helper()
	var server *Server
	d = serveWithLimits(t, journal.Options{}, limits, append(change, func(o *Options) {
		copied := *o
		copied.Registerer = nil
		server = New(copied)
	})...)
	l, err := Address{Scheme: SchemeHTTP, Host: "127.0.0.1"}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error)
	go func() { done <- server.RunReadOnly(ctx, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel(errStopped)
		if err := <-done; !errors.Is(err, errStopped) {
			t.Errorf("RunReadOnly returned %v", err)
		}
	})
	return d, l.Addr().String()
}

func TestTheReadOnlyAddress(t *testing.T) {
	d, address := serveLocal(t, Limits{}, posting)
	d.add("a", 1)
	for _, r := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/pods", 200, `"name":"a"`},
		{"GET", "/api/v1/pods", 200, `"name":"a"`},
		{"GET", "/v1alpha1/status", 200, `"instance"`},
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/version", 200, "test"},
		{"POST", "/v1alpha1/resync?namespace=default&name=a", 403, "this address is read-only"},
		{"POST", "/v1alpha1/release?source=file", 403, "this address is read-only"},
		{"GET", "/v1alpha1/release?source=file", 403, "this address is read-only"},
		{"DELETE", "/api/v1/namespaces/default/pods/a", 405, "podconfigd is read-only"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+address+r.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if code, body := roundTrip(t, http.DefaultClient, req); code != r.code || !strings.Contains(body, r.want) {
			t.Errorf("%s %s: %d %s, want %d %s", r.method, r.path, code, body, r.code, r.want)
		}
	}
	stream, err := http.Get("http://" + address + "/v1alpha1/updates")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || !strings.Contains(line, `"op":"ADD"`) {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
}

func TestTheReadOnlyAddressSpeaksGRPC(t *testing.T) {
	d, address := serveLocal(t, Limits{}, posting)
	d.add("a", 1)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := podconfigd.NewPodConfigClient(conn)
	stream, err := client.Watch(t.Context(), &podconfigd.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || len(m.GetPods()) != 1 {
		t.Errorf("Watch: %v, %v", m, err)
	}
	if _, err := client.Resync(t.Context(), &podconfigd.ResyncRequest{Namespace: "default", Name: "a"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("Resync: %v", err)
	}
	if _, err := client.Release(t.Context(), &podconfigd.ReleaseRequest{Source: "file"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("Release: %v", err)
	}
}

// A web page must not read the pods through the browser of a user of the node.
func TestTheReadOnlyAddressAndWebPages(t *testing.T) {
	_, address := serveLocal(t, Limits{})
	for _, r := range []struct {
		host, header, value string
		code                int
	}{
		{"", "", "", 200},
		{"localhost:1", "", "", 200},
		{"LOCALHOST", "", "", 200},
		{"[::1]:10255", "", "", 200},
		{"127.0.0.1", "", "", 200},
		{"evil.example", "", "", 403},
		{"evil.example:10255", "", "", 403},
		{"127.0.0.1.evil.example", "", "", 403},
		{"localhost.evil.example", "", "", 403},
		{"10.0.0.1:10255", "", "", 403},
		{"[fe80::1]", "", "", 403},
		{"", "Sec-Fetch-Site", "cross-site", 403},
		{"", "Sec-Fetch-Site", "same-site", 403},
		{"", "Sec-Fetch-Site", "same-origin", 200},
		{"", "Sec-Fetch-Site", "none", 200},
		{"", "Origin", "http://evil.example", 403},
		{"", "Origin", "null", 403},
		{"", "Origin", "http://" + address, 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = r.host
		if r.header != "" {
			req.Header.Set(r.header, r.value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != r.code {
			t.Errorf("%+v: %s", r, resp.Status)
		}
		if cors := resp.Header.Get("Access-Control-Allow-Origin"); cors != "" {
			t.Errorf("%+v: Access-Control-Allow-Origin: %s", r, cors)
		}
	}
}

// tcpPair returns the two ends of a connection over TCP.
func tcpPair(t *testing.T) (server *admittedConn, client net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	limitUnsent(conn)
	t.Cleanup(func() { _, _ = conn.Close(), client.Close() })
	return newAdmittedConn(conn, l.Addr(), nil, func() {}), client
}

// fillUntil writes to a connection until a write times out, again until drained returns an error, and
// returns how much was written. drained may find room if a busy kernel sent more after the write.
func fillUntil(t *testing.T, p *pace, want error, drained func() error) (written int64) {
	t.Helper()
	for {
		for err := error(nil); !errors.Is(err, os.ErrDeadlineExceeded); {
			if err = p.conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			var n int
			n, err = p.conn.Write(make([]byte, 64<<10))
			if written += int64(n); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		err := drained()
		if errors.Is(err, want) {
			return written
		} else if n := unsent(t, p); err != nil || n > maxUnsent/2 {
			t.Fatalf("with %d bytes unsent, the pace returns %v, not %v", n, err, want)
		}
	}
}

// unsent returns how many bytes the kernel has not sent.
func unsent(t *testing.T, p *pace) (n int) {
	t.Helper()
	if err := p.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// The pace waits for a client over TCP that does not read, also with gRPC, and goes on as soon
// as the client reads.
func TestPaceOverTCP(t *testing.T) {
	for _, call := range []bool{false, true} {
		conn, client := tcpPair(t)
		p := newPace(conn)
		p.call = call
		written := fillUntil(t, p, os.ErrDeadlineExceeded, func() error { return p.drained(t.Context()) })
		endless := func() {
			if err := conn.SetWriteDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if call {
			written += fillUntil(t, p, context.Canceled, func() error {
				endless()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.drained(ctx) }()
				cancel()
				return <-done
			})
		}
		endless()
		done := make(chan error)
		go func() { done <- p.drained(t.Context()) }()
		if _, err := io.CopyN(io.Discard, client, written); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after the client has read everything: %v", err)
		}
	}
}

// The pace is woken also if no write was blocked before.
func TestPaceOverTCPThatNeverBlocked(t *testing.T) {
	conn, client := tcpPair(t)
	if err := client.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	p := newPace(conn)
	written := int64(0)
	for unsent(t, p) <= maxUnsent/2+8<<10 {
		n, err := conn.Write(make([]byte, 4<<10))
		if err != nil {
			t.Fatal(err)
		}
		written += int64(n)
	}
	done := make(chan error)
	go func() { done <- p.drained(t.Context()) }()
	if _, err := io.CopyN(io.Discard, client, written); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the pace still waits after the client has read everything")
		_ = conn.Conn.Close()
		<-done
	}
}

// A client over TCP that does not read holds no more of the kernel's memory than a client of the
// socket, and its cursor keeps nothing.
func TestAClientOverTCPThatDoesNotRead(t *testing.T) {
	d, address := serveLocal(t, Limits{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /v1alpha1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := conn.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	pod := strings.Repeat("x", view.BatchSize)
	for i := range 64 {
		d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{podWith(fmt.Sprint(i), pod)}})
	}
	var lag int64
	for deadline := time.Now().Add(10 * time.Second); lag == 0 && time.Now().Before(deadline); {
		for _, s := range d.journal.Status().Subscribers {
			lag = max(lag, s.Lag)
		}
	}
	if lag == 0 {
		t.Error("a client that does not read has no lag")
	}
}
