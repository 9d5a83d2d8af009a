package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// callsWithOneRequest are all calls that begin with one message.
var callsWithOneRequest = []string{
	podsv1alpha1.Pods_ListPods_FullMethodName, podsv1alpha1.Pods_GetPod_FullMethodName, podsv1alpha1.Pods_WatchPods_FullMethodName,
	podconfigd.PodConfig_List_FullMethodName, podconfigd.PodConfig_Status_FullMethodName, podconfigd.PodConfig_History_FullMethodName,
	podconfigd.PodConfig_Lookup_FullMethodName, podconfigd.PodConfig_Watch_FullMethodName,
	podconfigd.PodConfig_WatchContainers_FullMethodName, podconfigd.PodConfig_ListContainers_FullMethodName,
	podconfigd.PodConfig_Resync_FullMethodName, podconfigd.PodConfig_Release_FullMethodName,
	healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName, healthpb.Health_List_FullMethodName,
}

// halfCalls begins calls on one connection. Each sends the data, and does not end.
func halfCalls(t *testing.T, conn net.Conn, data []byte, methods ...string) *http2.Framer {
	t.Helper()
	var header, out bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	framer := http2.NewFramer(&out, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	out.WriteString(http2.ClientPreface)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for i, method := range methods {
		header.Reset()
		for _, f := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
			{"content-type", "application/grpc"}, {"te", "trailers"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				t.Fatal(err)
			}
		}
		stream := uint32(2*i + 1)
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header.Bytes(), EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 {
			if err := framer.WriteData(stream, false, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	return framer
}

// endOf reads until so many calls have ended, and returns how many ended with each code.
func endOf(t *testing.T, conn net.Conn, framer *http2.Framer, calls int) map[string]int {
	t.Helper()
	codes := make(map[string]int)
	_ = conn.SetReadDeadline(time.Now().Add(testutil.Patience))
	for n := 0; n < calls; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%d of %d calls ended, then: %v", n, calls, err)
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			for _, f := range h.RegularFields() {
				if f.Name == "grpc-status" {
					codes[f.Value]++
				}
			}
			n++
		}
	}
	return codes
}

func repeated(method string, n int) []string {
	methods := make([]string, n)
	for i := range methods {
		methods[i] = method
	}
	return methods
}

// A call whose message does not come takes no place from others, on a socket and on a loopback
// address.
func TestHalfCallsHoldNoPlaces(t *testing.T) {
	d := serveLookup(t, conn.Limits{Lists: 1, Subscribers: 1, Connections: 20, ConnectionsPerPeer: 20})
	local := d.serveAlsoLocal(t)
	reading := slices.DeleteFunc(slices.Clone(callsWithOneRequest), func(method string) bool { return auth.AttributesOf(http.MethodPost, method).Verb != "get" })
	for name, where := range map[string]struct {
		places *conn.Places
		conn   net.Conn
	}{
		"socket":   {&d.limits.Sockets, d.dial(t)},
		"loopback": {&d.limits.Local, dialFrom(t, "127.0.0.1", local)},
	} {
		t.Run(name, func(t *testing.T) {
			halfCalls(t, where.conn, nil, reading...)
			testutil.Until(t, "the calls are open", func() bool { return where.places.Calls.InUse() == len(reading) })
			if lists, streams := where.places.Lists.InUse(), where.places.Subscribers.InUse(); lists != 0 || streams != 0 {
				t.Errorf("half calls have %d lists and %d streams", lists, streams)
			}
		})
	}
	for _, path := range []string{"/pods", "/metrics", "/v1alpha1/status"} {
		if code, body := d.get(t, path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	d.read(t, "")
}

// A call has as much time for its message as a request for its body. The message is complete with
// the end of the client's half.
func TestHalfCallsEnd(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ListTimeout: 300 * time.Millisecond}, posting)
	for name, data := range map[string][]byte{
		"nothing": nil, "half a prefix": {0, 0}, "half a message": {0, 0, 0, 0, 9, 1}, "a message without an end": {0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn := d.dial(t)
			framer := halfCalls(t, conn, data, callsWithOneRequest...)
			if got, want := endOf(t, conn, framer, len(callsWithOneRequest)), len(callsWithOneRequest); got[fmt.Sprint(uint32(codes.DeadlineExceeded))] != want {
				t.Errorf("%s: the calls end with the codes %v, want %d DeadlineExceeded", name, got, want)
			}
			_ = conn.Close()
		})
	}
	testutil.Until(t, "no call is left", func() bool { return d.limits.Sockets.Calls.InUse() == 0 })
}

// The calls of a process are limited over all of its connections.
func TestOpenCallsAreLimited(t *testing.T) {
	const each = 32 // streams
	d := serveLookup(t, conn.Limits{SubscribersPerPeer: each})
	const calls = openCallsPerStream * each
	for range openCallsPerStream {
		halfCalls(t, d.dial(t), nil, repeated(podconfigd.PodConfig_Lookup_FullMethodName, each)...)
	}
	testutil.Until(t, "the calls are open", func() bool { return d.limits.Sockets.Calls.InUse() == calls })
	conn := d.dial(t)
	framer := halfCalls(t, conn, nil, repeated(podconfigd.PodConfig_Lookup_FullMethodName, each)...)
	if got := endOf(t, conn, framer, each); got[fmt.Sprint(uint32(codes.ResourceExhausted))] != each {
		t.Errorf("further calls end with the codes %v", got)
	}
	if d.limits.Sockets.Calls.InUse() != calls {
		t.Errorf("%d calls are open", d.limits.Sockets.Calls.InUse())
	}
	if code, _ := d.get(t, "/pods"); code != http.StatusOK {
		t.Errorf("a list: %d", code)
	}
	// gRPC keeps a little of each refused call, so a connection has a limited number of them.
	conn = d.dial(t)
	framer = halfCalls(t, conn, nil, repeated(podconfigd.PodConfig_Lookup_FullMethodName, 2*callsToRefuse)...)
	_ = conn.SetReadDeadline(time.Now().Add(endsWithin))
	var err error
	for err == nil {
		_, err = framer.ReadFrame()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after %d refused calls, the connection is open", 2*callsToRefuse)
	}
}

// The requests of an address are limited over all of its connections.
func TestOpenRequestsOverTLSAreLimited(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{SubscribersPerPeer: 1})
	s.add("a", 1)
	c := s.dialH2(t, 1<<16)
	for i := range fewestOpenCalls {
		c.call(uint32(2*i+1), podconfigd.PodConfig_Lookup_FullMethodName)
	}
	calls := &s.server.limits.Remote.Calls
	testutil.Until(t, "the requests are open", func() bool { return calls.InUse() == fewestOpenCalls })
	resp := s.do(t, s.client(t, 2), "GET", "/pods", "all")
	refused(t, resp.code, resp.text(t), "too many open calls: loopback has 64")
	_ = resp.body.Close()
	_ = c.conn.Close()
	testutil.Until(t, "no request is left", func() bool { return calls.InUse() == 0 })
}
