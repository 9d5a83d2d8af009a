package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestHTTPSWithHTTP1AndHTTP2(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{}, posting)
	s.add("a", 1)
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP %d", major), func(t *testing.T) {
			client := s.client(t, major)
			for _, r := range []struct {
				method, path, token string
				code                int
				want                string
			}{
				{"GET", "/pods", "all", 200, `"name":"a"`},
				{"GET", "/pods", "pods", 200, `"name":"a"`},
				{"GET", "/api/v1/pods", "pods", 200, `"name":"a"`},
				{"GET", "/v1alpha1/status", "all", 200, `"instance"`},
				{"GET", "/v1alpha1/status", "pods", 403, `Forbidden (user=pods, verb=get, resource=nodes, subresource(s)=[proxy])`},
				{"GET", "/metrics", "pods", 403, `subresource(s)=[metrics]`},
				{"GET", "/pods", "", 401, `"reason":"Unauthorized"`},
				{"GET", "/pods", "wrong", 401, `"message":"Unauthorized"`},
				{"GET", "/healthz", "", 401, "Unauthorized"},
				{"POST", "/v1alpha1/release?source=file", "all", 200, "Success"},
				{"POST", "/v1alpha1/release?source=file", "pods", 403, "verb=create"},
				{"DELETE", "/api/v1/namespaces/default/pods/a", "all", 405, "podconfigd is read-only"},
				{"GET", "/nothing", "all", 404, "there is nothing"},
				{"GET", "/page/app.js", "", 200, "follow(apply, connection"}, // the page's files have nothing of the node
				{"GET", "/page/app.js", "wrong", 200, "follow(apply, connection"},
				{"GET", "/page/nothing.js", "", 401, "Unauthorized"},
				{"GET", "/", "", 401, "Unauthorized"}, // no browser
				{"POST", "/page/app.js", "", 401, "Unauthorized"},
			} {
				t.Run(fmt.Sprintf("%s %s as %s", r.method, r.path, cmp.Or(r.token, "nobody")), func(t *testing.T) {
					resp := s.do(t, client, r.method, r.path, r.token)
					if body := resp.text(t); resp.code != r.code || !strings.Contains(body, r.want) || resp.major != major {
						t.Errorf("HTTP/%d %d %s; want %d %s", resp.major, resp.code, body, r.code, r.want)
					}
				})
			}
			stream := s.do(t, client, "GET", "/v1alpha1/updates", "pods")
			lines := bufio.NewReader(stream.body)
			for _, op := range []string{"ADD", "BOOKMARK"} {
				if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"op":"`+op+`"`) {
					t.Fatalf("the stream has %q, %v", line, err)
				}
			}
			s.add(fmt.Sprint(major), 1)
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, fmt.Sprintf(`"name":"%d"`, major)) {
				t.Fatalf("the stream has %q, %v", line, err)
			}
			_ = stream.body.Close()
			s.noSubscribers(t)
		})
	}
}

func TestGRPCOverTLS(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{}, posting)
	s.add("a", 1)
	conn, ctx := s.grpcConn(t, "all")
	client := podconfigd.NewPodConfigClient(conn)
	watch, stop := context.WithCancel(ctx)
	stream, err := client.Watch(watch, &podconfigd.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || len(m.GetPods()) != 1 {
		t.Fatalf("Watch: %v, %v", m, err)
	}
	stop()
	s.noSubscribers(t)
	if list, err := client.List(ctx, &podconfigd.ListRequest{}); err != nil || len(list.GetPods()) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
	if _, err := client.Release(ctx, &podconfigd.ReleaseRequest{Source: "file"}); err != nil {
		t.Errorf("Release: %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}

	conn, ctx = s.grpcConn(t, "pods")
	client = podconfigd.NewPodConfigClient(conn)
	if _, err := client.List(ctx, &podconfigd.ListRequest{}); err != nil {
		t.Errorf("List: %v", err)
	}
	_, err = client.Release(ctx, &podconfigd.ReleaseRequest{Source: "file"})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "Forbidden (user=pods, verb=create, resource=nodes, subresource(s)=[proxy])") {
		t.Errorf("Release: %v", err)
	}
	conn, ctx = s.grpcConn(t, "")
	if _, err = podconfigd.NewPodConfigClient(conn).List(ctx, &podconfigd.ListRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("List without a token: %v", err)
	}
}

// Requests and calls share a connection of HTTP/2.
func TestRequestsAndCallsOnOneConnection(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{RemoteConnectionsPerPeer: 1})
	s.add("a", 1)
	client := s.client(t, 2)
	for range 3 {
		if resp := s.do(t, client, "GET", "/pods", "all"); resp.code != 200 {
			t.Fatal(resp.code)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+"/podconfigd.v1alpha1.PodConfig/List", strings.NewReader("\x00\x00\x00\x00\x00"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer all")
		req.Header.Set("Content-Type", "application/grpc")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || len(data) < messagePrefix || resp.Trailer.Get("Grpc-Status") != "0" {
			t.Fatalf("List: %q, %v, %v", data, resp.Trailer, err)
		}
	}
}

// Plain HTTP on an https address gets the answer of net/http.
func TestPlainHTTPOnTheTLSPort(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	resp, err := http.Get("http://" + s.address + "/pods")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest || string(body) != "Client sent an HTTP request to an HTTPS server.\n" {
		t.Errorf("%s %q", resp.Status, body)
	}
}

// An address that fails to authenticate too often is refused for a while. TestRatesOfManyPeers has
// the others.
func TestFailedAuthenticationsAreLimited(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	client := s.client(t, 2)
	attempt := func() *reply { return s.do(t, client, "GET", "/pods", "wrong") }
	resp, failures := attempt(), 0
	for ; resp.code == http.StatusUnauthorized; resp = attempt() {
		if failures++; failures > 10*failureBurst { // some more are allowed every second
			t.Fatalf("%d failures", failures)
		}
	}
	if body := resp.text(t); resp.code != http.StatusTooManyRequests || resp.header.Get("Retry-After") == "" || !strings.Contains(body, "loopback") {
		t.Errorf("after %d failures: %d %s", failures, resp.code, body)
	}
	if failures < failureBurst {
		t.Errorf("refused after %d failures, want at least %d", failures, failureBurst)
	}
}

// Connections beyond the limit of an address are refused. A client that takes longer than RefusalTime to ask, on a busy
// machine, gets no answer, and connections without a request end after HeaderTimeout: it opens others and asks again.
func TestRemoteConnectionsAreLimited(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{RemoteConnectionsPerPeer: 2})
	for _, major := range []int{1, 2} {
		testutil.Eventually(t, func() error {
			for range 2 {
				conn, err := net.Dial("tcp", s.address) // a handshake that is never finished
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = conn.Close() })
			}
			resp, err := s.client(t, major).Get("https://" + s.address + "/healthz")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			if resp.StatusCode == http.StatusUnauthorized {
				return errors.New("within the limit")
			}
			refused(t, resp.StatusCode, string(body), "too many connections: loopback has 2")
			return nil
		})
	}
}

// A subscriber that does not read over TLS does not stop the others, or the server.
func TestSubscribersOverTLSThatDoNotRead(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	for _, major := range []int{1, 2} {
		s.do(t, s.client(t, major), "GET", "/v1alpha1/updates", "all") // never read
	}
	conn, ctx := s.grpcConn(t, "all")
	if _, err := podconfigd.NewPodConfigClient(conn).Watch(ctx, &podconfigd.WatchRequest{}); err != nil {
		t.Fatal(err)
	}
	good := bufio.NewReader(s.do(t, s.client(t, 2), "GET", "/v1alpha1/updates", "all").body)
	if line, err := good.ReadString('\n'); err != nil || !strings.Contains(line, "BOOKMARK") {
		t.Fatalf("%q, %v", line, err)
	}
	const updates = 600
	go func() {
		for i := range updates {
			s.add(fmt.Sprintf("p%d", i), 32<<10)
		}
	}()
	for seen := 0; seen < updates; {
		line, err := good.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"reset":true`) {
			seen = 0
		}
		seen += strings.Count(line, `"uid":`)
	}
	s.add("after", 1)
	lagging := 0
	for _, sub := range s.journal.Status().Subscribers {
		if sub.Lag > 0 {
			lagging++
		}
	}
	if lagging < 3 {
		t.Errorf("%d subscribers lag, want 3: %+v", lagging, s.journal.Status().Subscribers)
	}
}
