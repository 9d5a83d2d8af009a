package apiserver

import (
	"context"
	nethttp "net/http"
	"time"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// answer is the part of the answer to a request that client-go does not return.
type answer struct {
	// retryAfter is the wait that the server asks for; 0 if none. client-go ignores it if
	// the answer also has a Status.
	retryAfter time.Duration
}

type answerKey struct{}

// note returns a context. The answers to its requests are recorded.
func (a *answer) note(ctx context.Context) context.Context {
	return context.WithValue(ctx, answerKey{}, a)
}

// notingTransport records the answers to requests whose context is from answer.note.
type notingTransport struct{ next nethttp.RoundTripper }

func (t *notingTransport) RoundTrip(req *nethttp.Request) (*nethttp.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if a, ok := req.Context().Value(answerKey{}).(*answer); ok && err == nil && resp.StatusCode >= 400 {
		a.retryAfter = sources.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter)
	}
	return resp, err
}
