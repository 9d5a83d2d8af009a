package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/servertest"
	"github.com/podconfigd/podconfigd/pkg/server/rpc"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// spellings are ways to write a path, with what stands before and behind its first slash and the path
// without it.
var spellings = []string{
	"x:http://h/%s", "x:/%s", "x:%s", "http://localhost/%s", "https://localhost:1/%s", "http:///%s", "//%s", "///%s", "/./%s", "/x/../%s", "/pods/../%s",
	"/%%2e/%s", "/pods/%%2e%%2e/%s", "/pods/%%252e%%252e/%s", "/pods%%2f..%%2f%s", "/%%2f%s", `/pods\..\%s`, "/pods/..%%5c%s", "/pods/..;/%s", "/;/%s", "/pods?/%s", "/pods#/%s",
	"/api/%s", "/apis/authorization.k8s.io/../../%s", "/apis/authorization.k8s.io/%%2e%%2e/%%2e%%2e/%s", "/v1alpha1.Pods/../%s", "/v1alpha1.Pods/%%2e%%2e/%s", "/%s/", "/%s;x", "/%s%%00", "/%s%%20",
}

// spelled returns all ways to write a path.
func spelled(path string) (targets []string) {
	path = strings.TrimPrefix(path, "/")
	for _, spelling := range spellings {
		targets = append(targets, fmt.Sprintf(spelling, path))
	}
	return append(targets, "/"+path, "/"+strings.ReplaceAll(path, "/", "%2f"), "/"+strings.ReplaceAll(path, "/", "//"), strings.ReplaceAll("/"+path, "a", "%61"), "/"+strings.ToUpper(path))
}

// counted has a server count what it is asked to change.
func counted(writes *atomic.Int64) func(*Options) {
	return func(o *Options) {
		o.Resync = func(context.Context, string, string) error { writes.Add(1); return nil }
		o.Release = func(context.Context, string, *int) error { writes.Add(1); return nil }
	}
}

// raw sends a request over HTTP/1.1 whose target is these bytes. A server may close the connection.
func raw(t *testing.T, conn net.Conn, method, target string) (code int, body string) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer pods\r\nConnection: close\r\n\r\n", method, target); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp.StatusCode, string(data)
}

// No way to write a target changes something over the read-only port.
func TestTargetsOfTheReadOnlyAddress(t *testing.T) {
	var writes atomic.Int64
	_, address := serveLocal(t, conn.Limits{}, counted(&writes))
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for _, path := range []string{"/v1alpha1/release?source=file", "/v1alpha1/resync?namespace=a&name=b"} {
		for _, target := range spelled(path) {
			for _, method := range []string{http.MethodPost, http.MethodConnect, http.MethodPut} {
				raw(t, dial(), method, target)
			}
		}
	}
	for _, path := range []string{podconfigd.PodConfig_Release_FullMethodName, podconfigd.PodConfig_Resync_FullMethodName} {
		targets := append(spelled(path), path[1:])
		conn := dial()
		framer := halfCalls(t, conn, servertest.Message(nil), targets...)
		if ended := endOf(t, conn, framer, len(targets)); ended["0"] != 0 {
			t.Errorf("%s: the calls ended with %v", path, ended)
		}
		_ = conn.Close()
	}
	if n := writes.Load(); n != 0 {
		t.Errorf("the daemon changed something %d times", n)
	}
}

// No way to write a target gets a user more over https than it is authorized for: one that may get
// nodes/pods does not get the status, and changes nothing.
func TestTargetsOverTLS(t *testing.T) {
	var writes atomic.Int64
	s := serveHTTPS(t, conn.Limits{}, counted(&writes))
	for path, method := range map[string]string{"/v1alpha1/status": http.MethodGet, "/v1alpha1/history": http.MethodGet, "/v1alpha1/release": http.MethodPost} {
		t.Run(path, func(t *testing.T) {
			for _, target := range spelled(path) {
				conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.roots}}).DialContext(t.Context(), "tcp", s.address)
				if err != nil {
					t.Fatal(err)
				}
				if code, body := raw(t, conn, method, target); strings.Contains(body, `"instance"`) || code == http.StatusOK && !strings.HasPrefix(target, "/pods") {
					t.Errorf("HTTP/1.1 %s %s: %d %s", method, target, code, body)
				}
				if code, body := s.rawHTTP2(t, method, target); strings.Contains(body, `"instance"`) || code == "200" && !strings.HasPrefix(target, "/pods") {
					t.Errorf("HTTP/2 %s %s: %s %s", method, target, code, body)
				}
			}
		})
	}
	for _, target := range append(spelled(podconfigd.PodConfig_Release_FullMethodName), podconfigd.PodConfig_Release_FullMethodName[1:]) {
		if code, body := s.rawHTTP2(t, http.MethodPost, target, "content-type", "application/grpc", "te", "trailers"); code == "200 grpc 0" {
			t.Errorf("gRPC %s: %s %s", target, code, body)
		}
	}
	if n := writes.Load(); n != 0 {
		t.Errorf("the daemon changed something %d times", n)
	}
}

// rawHTTP2 sends a request whose :path is these bytes, as the user "pods". The code has that of gRPC.
func (s *secured) rawHTTP2(t *testing.T, method, target string, fields ...string) (code, body string) {
	t.Helper()
	c := s.dialH2(t, 1<<20)
	defer c.conn.Close()
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.open(1, len(fields) == 0, method, target, append(fields, "authorization", "Bearer pods")...)
	if len(fields) > 0 {
		if err := c.WriteData(1, true, servertest.Message(nil)); err != nil {
			t.Fatal(err)
		}
	}
	c.until("the end of "+target, func(f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			code += f.PseudoValue("status")
			for _, field := range f.RegularFields() {
				if field.Name == "grpc-status" {
					code += " grpc " + field.Value
				}
			}
		case *http2.DataFrame:
			body += string(f.Data())
		case *http2.RSTStreamFrame:
			return f.StreamID == 1
		}
		return f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream)
	})
	return code, body
}

// Each call of the daemon is known to read or to write. All that is not known to read is refused at
// the read-only port, and takes more than reading at the https addresses.
func TestAllCallsAreKnown(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{})
	writes := map[string]bool{podconfigd.PodConfig_Resync_FullMethodName: true, podconfigd.PodConfig_Release_FullMethodName: true}
	calls := []string{"/podconfigd.v1alpha1.PodConfig/New", "/v1alpha1.Pods/New", "/grpc.health.v1.Health/New", "/grpc.reflection.v1.ServerReflection/New", "/new.Service/Get", podconfigd.PodConfig_Release_FullMethodName[1:], ""}
	for _, call := range calls {
		writes[call] = true
	}
	for name, service := range d.server.rpc.NewServer(t.Context(), false).GetServiceInfo() {
		for _, m := range service.Methods {
			calls = append(calls, "/"+name+"/"+m.Name)
		}
	}
	if len(calls) < 7+14 {
		t.Errorf("the daemon has only the calls %v", calls)
	}
	for _, call := range calls {
		err := rpc.RefuseWrites("it writes")(nil, nil, &grpc.StreamServerInfo{FullMethod: call}, func(any, grpc.ServerStream) error { return nil })
		if refused := status.Code(err) == codes.PermissionDenied; refused != writes[call] {
			t.Errorf("%s is refused: %v; add it to the rules of pkg/auth if it only reads, and otherwise here", call, refused)
		}
		if reads := auth.AttributesOf(http.MethodPost, call).Verb == "get"; reads == writes[call] {
			t.Errorf("%s: the https addresses say that it reads: %v", call, reads)
		}
	}
}
