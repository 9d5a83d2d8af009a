package apiserver

import (
	"context"
	nethttp "net/http"
	"time"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// answer is what client-go does not hand on of the answer to a request.
type answer struct {
	// retryAfter is how long the server asks to be left alone; 0 if it doesn't. client-go
	// overlooks it beside a Status.
	retryAfter time.Duration
}

type answerKey struct{}

// note returns a context whose requests are noted.
func (a *answer) note(ctx context.Context) context.Context {
	return context.WithValue(ctx, answerKey{}, a)
}

// notingTransport notes the answers to requests whose context asks for that.
type notingTransport struct{ next nethttp.RoundTripper }

func (t *notingTransport) RoundTrip(req *nethttp.Request) (*nethttp.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if a, ok := req.Context().Value(answerKey{}).(*answer); ok && err == nil && resp.StatusCode >= 400 {
		a.retryAfter = sources.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter)
	}
	return resp, err
}
