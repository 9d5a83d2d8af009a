package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxied serves a socket with a proxy, and returns its address.
func proxied(t *testing.T, socket string) (address string, stop func()) {
	t.Helper()
	return proxiedBy(t, client.New(socket))
}

// daemon is a server with one pod, which counts what it is asked to change.
type daemon struct {
	socket string
	*journal.Journal
	writes atomic.Int64
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{socket: filepath.Join(testutil.ShortDir(t), "s"), Journal: journal.New(journal.Options{})}
	l, err := socket.Listen(t.Context(), socket.ListenOptions{Path: d.socket, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	d.add("a")
	s := server.New(server.Options{
		Journal: d.Journal, Status: d.Status, Gatherer: prometheus.NewRegistry(),
		Resync:  func(context.Context, string, string) error { d.writes.Add(1); return nil },
		Release: func(context.Context, string, *int) error { d.writes.Add(1); return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

func (d *daemon) add(name string) {
	d.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}}}})
}

// answer is a response without its body.
type answer struct {
	StatusCode    int
	Header        http.Header
	ContentLength int64
}

// do sends a request on a connection of its own.
func do(t *testing.T, r *http.Request, by http.RoundTripper) (a answer, body string) {
	t.Helper()
	resp, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, resp.ContentLength}, string(data)
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var once = &http.Transport{DisableKeepAlives: true, DisableCompression: true}

// The answers are those of the daemon, byte for byte, also the errors.
func TestAnswersAreThoseOfTheDaemon(t *testing.T) {
	d := newDaemon(t)
	address, _ := proxied(t, d.socket)
	for _, path := range []string{
		"/pods", "/healthz?verbose", "/api/v1/pods", "/api/v1/namespaces/default/pods/none", "/v1alpha1/updates?mode=x",
		"/none", "/api/v1/namespaces/a/pods/", "/v1alpha1/lookup?podUID=u", "/openapi/v3",
	} {
		t.Run(path, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
				if method == http.MethodDelete && !strings.HasPrefix(path, "/api/") {
					continue // the proxy has an answer of its own
				}
				resp, body := do(t, request(t, method, "http://"+address+path), once)
				want, wantBody := do(t, request(t, method, "http://"+address+path), client.New(d.socket))
				for _, h := range []http.Header{resp.Header, want.Header} {
					h.Del("Date")
					h.Del("Audit-Id")
				}
				if resp.StatusCode != want.StatusCode || body != wantBody || fmt.Sprint(resp.Header) != fmt.Sprint(want.Header) || resp.ContentLength != want.ContentLength {
					t.Errorf("%s %s: got %d %v %q, want %d %v %q", method, path, resp.StatusCode, resp.Header, body, want.StatusCode, want.Header, wantBody)
				}
			}
		})
	}
}

// When the proxy stops, a request has no answer, or the daemon's: kubectl takes an empty 200 for success.
func TestAStopIsNoAnswer(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.Listen("unix", socket) // a daemon that does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address, stop := proxied(t, socket)
	answers := make(chan string)
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		go func() {
			resp, err := once.RoundTrip(request(t, method, "http://"+address+"/pods"))
			if err != nil {
				answers <- ""
				return
			}
			_ = resp.Body.Close()
			answers <- method + " " + resp.Status
		}()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the request is there
			t.Fatal(err)
		}
	}
	stop()
	for range 2 {
		if answer := <-answers; answer != "" {
			t.Errorf("got %s", answer)
		}
	}
}

// Each line of a stream arrives at once, and the daemon's end ends the client's answer as a
// failure, not as an end.
func TestStreams(t *testing.T) {
	d := newDaemon(t)
	address, stop := proxied(t, d.socket)
	resp, err := once.RoundTrip(request(t, http.MethodGet, "http://"+address+"/v1alpha1/updates"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i, want := range []string{`"op":"ADD"`, `"op":"BOOKMARK"`, `"name":"b"`, `"name":"c"`} {
		if i > 1 {
			d.add([]string{"b", "c"}[i-2])
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("line %d is %q, %v, want %s", i, lines.Text(), lines.Err(), want)
		}
	}
	if subs := d.Status().Subscribers; len(subs) != 1 {
		t.Errorf("the daemon has %d subscribers", len(subs))
	}
	stop()
	for lines.Scan() {
		t.Errorf("a line after the end: %s", lines.Text())
	}
	if lines.Err() == nil {
		t.Error("the stream ends as if it were complete")
	}
}

// A client that goes ends its request to the daemon.
func TestAClientThatGoes(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	socket := filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	upstream := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began) // it has sent nothing yet
		<-r.Context().Done()
		close(ended)
	})}
	served := make(chan error)
	go func() { served <- upstream.Serve(l) }()
	defer func() { _ = upstream.Close(); <-served }()
	address, _ := proxied(t, socket)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		resp, err := once.RoundTrip(request(t, http.MethodGet, "http://"+address+"/v1alpha1/updates").WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-began
	cancel()
	if err := <-failed; err == nil {
		t.Error("an answer")
	}
	select {
	case <-ended:
	case <-time.After(testutil.Patience):
		t.Error("the request to the daemon goes on")
	}
}

func TestGRPC(t *testing.T) {
	d := newDaemon(t)
	address, stop := proxied(t, d.socket)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := podconfigd.NewPodConfigClient(conn)
	stream, err := c.Watch(t.Context(), &podconfigd.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || len(m.GetPods()) != 1 {
		t.Errorf("Watch: %v, %v", m, err)
	}
	if m, err := c.List(t.Context(), &podconfigd.ListRequest{}); err != nil || len(m.GetPods()) != 1 {
		t.Errorf("List: %v, %v", m, err)
	}
	if _, err := c.Lookup(t.Context(), &podconfigd.LookupRequest{}); status.Code(err) != codes.Unimplemented && status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.Unavailable {
		t.Errorf("Lookup: %v", err) // an answer without a body
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("Check: %v", err)
	}
	if _, err := c.Resync(t.Context(), &podconfigd.ResyncRequest{Namespace: "default", Name: "a"}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "podconfigctl proxy only reads: ") {
		t.Errorf("Resync: %v", err)
	}
	if _, err := c.Release(t.Context(), &podconfigd.ReleaseRequest{Source: "file"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("Release: %v", err)
	}
	if n := d.writes.Load(); n != 0 {
		t.Errorf("the daemon was asked to change something %d times", n)
	}
	stop()
	for err == nil { // the bookmark may come first
		_, err = stream.Recv()
	}
	if status.Code(err) == codes.OK {
		t.Errorf("the stream ends with %v", err)
	}
}

// What changes something, and what a web page sends, never reaches the daemon.
func TestRefusedRequests(t *testing.T) {
	d := newDaemon(t)
	address, _ := proxied(t, d.socket)
	for _, path := range []string{"/v1alpha1/resync?namespace=default&name=a", "/v1alpha1/release?source=file", "/podconfigd.v1alpha1.PodConfig/Release"} {
		t.Run(path, func(t *testing.T) {
			resp, body := do(t, request(t, http.MethodPost, "http://"+address+path), once)
			if resp.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(body, `"message":"podconfigctl proxy only reads: `) {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
		})
	}
	if n := d.writes.Load(); n != 0 {
		t.Errorf("the daemon was asked to change something %d times", n)
	}
	for header, want := range map[string]int{
		"Host: evil.example": 403, "Host: evil.example:8001": 403, "Host: 10.0.0.1": 403, "Host: localhost.evil.example": 403,
		"Host: localhost": 200, "Host: localhost:1": 200, "Host: [::1]:8001": 200, "Host: 127.9.9.9": 200,
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: none": 200,
		"Origin: http://evil.example": 403,
	} {
		t.Run(header, func(t *testing.T) {
			r := request(t, http.MethodGet, "http://"+address+"/pods")
			name, value, _ := strings.Cut(header, ": ")
			r.Header.Set(name, value)
			if name == "Host" {
				r.Host = value
			}
			if resp, body := do(t, r, once); resp.StatusCode != want {
				t.Errorf("%s: %d %s, want %d", header, resp.StatusCode, body, want)
			}
		})
	}
}

func TestWithoutADaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	address, _ := proxied(t, socket)
	resp, body := do(t, request(t, http.MethodGet, "http://"+address+"/pods"), once)
	var refusal metav1.Status
	if err := json.Unmarshal([]byte(body), &refusal); err != nil || resp.StatusCode != http.StatusBadGateway || refusal.Code != http.StatusBadGateway {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if want := "connecting to " + socket + ": connect: no such file or directory: is podconfigd running, and is this its socket?"; refusal.Message != want {
		t.Errorf("the message is %q, want %q", refusal.Message, want)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := podconfigd.NewPodConfigClient(conn).List(t.Context(), &podconfigd.ListRequest{}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "is podconfigd running") {
		t.Errorf("List: %v", err)
	}
}
