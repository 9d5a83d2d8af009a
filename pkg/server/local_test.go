package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// posting has a server take the requests that change something.
func posting(o *Options) {
	o.Resync = func(context.Context, string, string) error { return nil }
	o.Release = func(context.Context, string, *int) error { return nil }
}

// serveLocal serves a journal also on a loopback address.
func serveLocal(t *testing.T, limits conn.Limits, change ...func(*Options)) (d *daemon, address string) {
	t.Helper()
	var server *Server
	d = serveWithLimits(t, journal.Options{}, limits, append(change, func(o *Options) {
		copied := *o
		copied.Registerer = nil
		server = New(copied)
	})...)
	l, err := socket.Address{Scheme: socket.SchemeHTTP, Host: "127.0.0.1"}.Listen(t.Context())
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
	d, address := serveLocal(t, conn.Limits{}, posting)
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
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+address+r.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if code, body := roundTrip(t, http.DefaultClient, req); code != r.code || !strings.Contains(body, r.want) {
				t.Errorf("%s %s: %d %s, want %d %s", r.method, r.path, code, body, r.code, r.want)
			}
		})
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
	d, address := serveLocal(t, conn.Limits{}, posting)
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
	_, address := serveLocal(t, conn.Limits{})
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
		t.Run(strings.TrimSpace(r.host+" "+r.header+" "+r.value), func(t *testing.T) {
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
		})
	}
}

// A client over TCP that does not read holds no more of the kernel's memory than a client of the
// socket, and its cursor keeps nothing.
func TestAClientOverTCPThatDoesNotRead(t *testing.T) {
	d, address := serveLocal(t, conn.Limits{})
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
	testutil.Until(t, "a client that does not read has a lag", func() bool {
		return slices.ContainsFunc(d.journal.Status().Subscribers, func(s v1alpha1.Subscriber) bool { return s.Lag > 0 })
	})
}
