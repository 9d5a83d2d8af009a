package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync"

	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// callBody is the body of a call of gRPC. Behind a server of net/http, gRPC reads a body as fast as it
// comes, into memory that has no limit. So callBody lets gRPC read one message ahead, and then waits until
// the call receives it. The flow control of HTTP/2 holds back the rest.
type callBody struct {
	body io.ReadCloser
	// left is how many bytes of the current message are left, with its prefix. prefix has the
	// bytes of the prefix that were read.
	left   int
	prefix []byte

	// more has an element for each message that gRPC may begin to get.
	more chan struct{}
	// closed is closed by Close.
	closed chan struct{}
	close  func()
}

// prefixSize is the size of the prefix of a message: a flag and the length.
const prefixSize = 5

func newCallBody(body io.ReadCloser) *callBody {
	b := &callBody{body: body, more: make(chan struct{}, 2), closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	b.take()
	return b
}

// Read reads from the current message, or waits until the next one may be read.
func (b *callBody) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	if b.left == 0 {
		if err := b.wait(); err != nil {
			return 0, err
		}
		b.left, b.prefix = prefixSize, b.prefix[:0]
	}
	n, err := b.body.Read(into[:min(len(into), b.left)])
	b.left -= n
	if missing := prefixSize - len(b.prefix); missing > 0 {
		b.prefix = append(b.prefix, into[:n]...) // left was not more than the prefix
		if len(b.prefix) == prefixSize {
			size := binary.BigEndian.Uint32(b.prefix[1:])
			if size > conn.MaxHeader { // gRPC refuses it from its prefix
				return n, fmt.Errorf("a message has %d bytes: expected at most %d", size, conn.MaxHeader)
			}
			b.left = int(size)
		}
	}
	return n, err
}

// wait waits until gRPC has taken the last message.
func (b *callBody) wait() error {
	select {
	case <-b.more:
		return nil
	case <-b.closed:
		return io.ErrClosedPipe
	}
}

// take allows gRPC to read one more message. It never has more than two that are not read, except after
// the end of the body, when further ones are dropped.
func (b *callBody) take() {
	await.Signal(b.more)
}

// Close ends Read.
func (b *callBody) Close() error {
	b.close()
	return b.body.Close()
}

// ServeCall serves a call of gRPC behind a server of net/http.
func ServeCall(calls *grpc.Server, w http.ResponseWriter, r *http.Request) {
	body := newCallBody(r.Body)
	ctx := context.WithValue(r.Context(), callBodyKey{}, body)
	r = r.WithContext(ctx)
	r.Body = body
	conn.WithoutDeadlines(ctx) // gRPC has its own
	calls.ServeHTTP(w, r)
}

type callBodyKey struct{}

func bodyFrom(ctx context.Context) *callBody {
	body, _ := ctx.Value(callBodyKey{}).(*callBody)
	return body
}
