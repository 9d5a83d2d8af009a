package server

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// control sets the deadlines of a request over HTTP/2, until its handler returns. A goroutine of
// gRPC can outlive the handler.
type control struct {
	mu       sync.Mutex
	response *http.ResponseController // nil after the handler has returned
}

type controlKey struct{}

// withControl adds a control to the context of a request over HTTP/2. A stream of HTTP/2 has
// deadlines of its own.
func withControl(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			c := &control{response: http.NewResponseController(w)}
			defer c.end()
			r = r.WithContext(context.WithValue(r.Context(), controlKey{}, c))
		}
		next.ServeHTTP(w, r)
	})
}

func controlFrom(ctx context.Context) *control {
	c, _ := ctx.Value(controlKey{}).(*control)
	return c
}

func (c *control) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.response = nil
}

// withoutDeadlines removes the deadlines of the request of the context, over HTTP/2.
func withoutDeadlines(ctx context.Context) {
	c := controlFrom(ctx)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response != nil {
		_ = c.response.SetReadDeadline(time.Time{}) // fails if the stream has ended
		_ = c.response.SetWriteDeadline(time.Time{})
	}
}

// endWithin gives the answer to the request of the context this time for what is not written yet. After it, the stream
// of HTTP/2 is reset, and the connection stays. It returns false if the request is not over HTTP/2.
func endWithin(ctx context.Context, timeout time.Duration) (ok bool) {
	c := controlFrom(ctx)
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response != nil {
		_ = c.response.SetWriteDeadline(time.Now().Add(timeout)) // fails if the stream has ended
	}
	return true
}
