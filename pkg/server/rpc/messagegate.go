package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync"

	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// messageGate is the body of a call of gRPC. Behind a server of net/http, gRPC reads a body as fast
// as it comes, into memory that has no limit. So the body gives it one message more than it has
// taken, and then waits. What the client has sent besides is held by the window of HTTP/2.
type messageGate struct {
	body io.ReadCloser
	// left is how many bytes of the current message are left, with its prefix. prefix has the
	// bytes of the prefix that were read.
	left   int
	prefix []byte

	mu sync.Mutex // guards what follows
	// taken is how many messages gRPC asked for, given is how many it has begun to get.
	taken, given int
	closed       bool
	changed      sync.Cond
}

// prefixSize is the size of the prefix of a message: a flag and the length.
const prefixSize = 5

func newMessageGate(body io.ReadCloser) *messageGate {
	g := &messageGate{body: body}
	g.changed.L = &g.mu
	return g
}

// Read reads from the current message, or waits until the next one may be read.
func (g *messageGate) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	if g.left == 0 {
		if err := g.wait(); err != nil {
			return 0, err
		}
		g.left, g.prefix = prefixSize, g.prefix[:0]
	}
	n, err := g.body.Read(into[:min(len(into), g.left)])
	g.left -= n
	if missing := prefixSize - len(g.prefix); missing > 0 {
		g.prefix = append(g.prefix, into[:n]...) // left was not more than the prefix
		if len(g.prefix) == prefixSize {
			size := binary.BigEndian.Uint32(g.prefix[1:])
			if size > conn.MaxHeader { // gRPC refuses it from its prefix
				return n, fmt.Errorf("a message has %d bytes: expected at most %d", size, conn.MaxHeader)
			}
			g.left = int(size)
		}
	}
	return n, err
}

// wait waits until gRPC has taken the last message.
func (g *messageGate) wait() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.given > g.taken && !g.closed {
		g.changed.Wait()
	}
	if g.closed {
		return io.ErrClosedPipe
	}
	g.given++
	return nil
}

// take says that gRPC asks for a message.
func (g *messageGate) take() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken++
	g.changed.Broadcast()
}

// Close ends Read.
func (g *messageGate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.changed.Broadcast()
	return g.body.Close()
}

// ServeCall serves a call of gRPC behind a server of net/http.
func ServeCall(calls *grpc.Server, w http.ResponseWriter, r *http.Request) {
	body := newMessageGate(r.Body)
	ctx := context.WithValue(r.Context(), messageGateKey{}, body)
	r = r.WithContext(ctx)
	r.Body = body
	conn.WithoutDeadlines(ctx) // gRPC has its own
	calls.ServeHTTP(w, r)
}

type messageGateKey struct{}

// gatedStream is a stream whose messages come through a gate.
type gatedStream struct {
	grpc.ServerStream
	gate *messageGate
}

// RecvMsg receives the next message.
func (s gatedStream) RecvMsg(m any) error {
	s.gate.take()
	return s.ServerStream.RecvMsg(m)
}

// Gated has a call take its messages from the gate of its context, if there is one.
func Gated(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if gate := gateFrom(stream.Context()); gate != nil {
		stream = gatedStream{stream, gate}
	}
	return handle(srv, stream)
}

func gateFrom(ctx context.Context) *messageGate {
	gate, _ := ctx.Value(messageGateKey{}).(*messageGate)
	return gate
}
