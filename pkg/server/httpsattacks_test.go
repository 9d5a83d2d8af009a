package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/servertest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// h2 is a client of HTTP/2 that sends frames of its own.
type h2 struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	header bytes.Buffer
	hpack  *hpack.Encoder
}

// dialH2 connects with a window for each stream.
func (s *secured) dialH2(t *testing.T, window uint32) *h2 {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.roots, NextProtos: []string{"h2"}}}).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &h2{t: t, conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.hpack = hpack.NewEncoder(&c.header)
	if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		t.Fatal(err)
	}
	return c
}

// open begins a request. fields are pairs of a name and a value.
func (c *h2) open(stream uint32, end bool, method, path string, fields ...string) {
	c.t.Helper()
	c.header.Reset()
	fields = append([]string{":method", method, ":scheme", "https", ":path", path, ":authority", "localhost"}, fields...)
	if !slices.Contains(fields, "authorization") {
		fields = append(fields, "authorization", "Bearer all")
	}
	for i := 0; i < len(fields); i += 2 {
		if err := c.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.header.Bytes(), EndHeaders: true, EndStream: end}); err != nil {
		c.t.Fatal(err)
	}
}

// call begins a call of gRPC that does not end.
func (c *h2) call(stream uint32, method string) {
	c.t.Helper()
	c.open(stream, false, "POST", method, "content-type", "application/grpc", "te", "trailers")
}

// until reads frames until one is wanted, and returns it.
func (c *h2) until(what string, wanted func(http2.Frame) bool) http2.Frame {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(testutil.Patience))
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", what, err)
		}
		if wanted(frame) {
			return frame
		}
	}
}

// A call with many messages works through the gate, also if the client sends them all before it
// reads an answer.
func TestManyMessagesOverTLS(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	conn, ctx := s.grpcConn(t, "all")
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 100
	for range messages {
		err := stream.Send(&reflectionpb.ServerReflectionRequest{
			Host: strings.Repeat("x", 1<<10), MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// A request over HTTP/2 whose body does not come, and that nobody reads, has its answer at once.
func TestMissingBodiesOverHTTP2(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{ListTimeout: time.Hour})
	c := s.dialH2(t, 1<<16)
	for i, path := range []string{"/pods", "/v1alpha1/resync?namespace=default", "/api/v1/namespaces/default/pods", "/nothing"} {
		stream := uint32(2*i + 1)
		c.open(stream, false, "POST", path, "content-type", "application/json")
		c.until("the end of the answer of "+path, func(f http2.Frame) bool {
			d, ok := f.(*http2.DataFrame)
			return ok && d.StreamID == stream && d.StreamEnded()
		})
	}
	testutil.Until(t, "no request is left", func() bool { return s.server.limits.Remote.Calls.InUse() == 0 })
}

// A message that is too large is refused, and the daemon does not read it.
func TestLargeMessages(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	client, ctx := s.grpcConn(t, "all")
	if _, err := podconfigd.NewPodConfigClient(client).List(ctx, &podconfigd.ListRequest{
		Selector: &podconfigd.PodSelector{LabelSelector: strings.Repeat("a", conn.MaxHeader)},
	}); err == nil {
		t.Error("a large message was taken")
	}
}

// Calls whose answers nobody reads end, one by one, and the connection goes on.
func TestAnswersOverTLSThatNobodyReads(t *testing.T) {
	t.Parallel()                                                            // it waits
	s := serveHTTPS(t, conn.Limits{Lists: 1, ListTimeout: 3 * time.Second}) // also the time for a handshake
	s.add("a", 64<<10)
	c := s.dialH2(t, 0)
	for i, begin := range []func(stream uint32){
		func(stream uint32) { c.open(stream, true, "GET", "/pods") },
		func(stream uint32) {
			c.call(stream, "/podconfigd.v1alpha1.PodConfig/List")
			if err := c.WriteData(stream, true, servertest.Message(nil)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		stream := uint32(2*i + 1)
		begin(stream)
		c.until("the reset of the stream", func(f http2.Frame) bool {
			reset, ok := f.(*http2.RSTStreamFrame)
			return ok && reset.StreamID == stream
		})
		s.listedHere(t)
	}
}

// listedHere waits until the only place for a list can be had again.
func (s *secured) listedHere(t *testing.T) {
	t.Helper()
	client := s.client(t, 1)
	testutil.Until(t, "the place of the list is given back", func() bool {
		return s.do(t, client, http.MethodHead, "/pods", "all").code == http.StatusOK
	})
}

// Streams that are reset, on a connection that is not read, leave nothing behind.
func TestStreamsThatAreResetOverTLS(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{Subscribers: 4, SubscribersPerPeer: 4})
	for i := range 16 {
		s.add(fmt.Sprint(i), 64<<10)
	}
	c := s.dialH2(t, 1<<20)
	if err := c.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(12) {
		stream := 2*i + 1
		switch i % 3 {
		case 0:
			c.open(stream, true, "GET", "/v1alpha1/updates")
		case 1:
			c.open(stream, true, "GET", "/api/v1/pods?watch=true")
		case 2:
			c.call(stream, "/podconfigd.v1alpha1.PodConfig/Watch")
			if err := c.WriteData(stream, true, servertest.Message(nil)); err != nil {
				t.Fatal(err)
			}
		}
		testutil.Until(t, "the stream is open", func() bool { return i%3 == 1 || len(s.journal.Status().Subscribers) > 0 })
		if err := c.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		s.noSubscribers(t)
	}
}

// Clients that are slow with the handshake or with their header are cut off in time, and the others
// are served meanwhile.
func TestSlowClientsOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel() // it waits
	s := serveHTTPS(t, conn.Limits{})
	silent, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	half, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, err := half.Write([]byte{22, 3, 1, 2, 0}); err != nil { // the beginning of a record
		t.Fatal(err)
	}
	header, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.roots}}).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer header.Close()
	if _, err := io.WriteString(header, "GET /pods HTTP/1.1\r\nHost: x\r\nX: "); err != nil {
		t.Fatal(err)
	}
	if code := s.do(t, s.client(t, 2), "GET", "/pods", "all").code; code != http.StatusOK {
		t.Errorf("meanwhile: %d", code)
	}
	start := time.Now()
	for what, c := range map[string]net.Conn{"silent": silent, "half": half, "header": header} {
		t.Run(what, func(t *testing.T) {
			_ = c.SetReadDeadline(time.Now().Add(2*conn.HeaderTimeout + endsWithin))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) > conn.HeaderTimeout+endsWithin {
				t.Errorf("open for %v: %v", time.Since(start), err)
			}
		})
	}
}

// A stream over HTTP/1.1 ends when its client sends anything, as on the socket.
func TestClientsOverTLSThatSpeak(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{})
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.roots}}).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1alpha1/updates HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	s.noSubscribers(t)
}

// An address that connects too often is cut off, and keeps the connections that it has. TestRatesOfManyPeers has the others.
func TestConnectionsAreRated(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{RemoteConnections: 4 * connectsAtOnce, RemoteConnectionsPerPeer: 4 * connectsAtOnce})
	first := s.client(t, 1)
	answers := func() {
		t.Helper()
		got := s.do(t, first, http.MethodGet, "/version", "all")
		if _, err := io.Copy(io.Discard, got.body); err != nil || got.code != http.StatusOK {
			t.Errorf("the first connection: %d, %v", got.code, err)
		}
	}
	answers()
	rated := s.server.metrics.rejections.WithLabelValues("rate")
	closed := make(chan struct{}, 1)
	for prometheustest.ToFloat64(rated) == 0 { // some more are allowed every second
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
				await.Signal(closed)
			}
		}()
	}
	<-closed
	answers()
}
