package http

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"time"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// requestTimeout is the maximum time of an answer, from the connection to its last byte.
//
// kubelet: pkg/kubelet/config/http.go NewSourceURL.
const requestTimeout = 10 * time.Second

// answer is the answer of the server.
type answer struct {
	// unchanged means that nothing changed since the last remembered answer.
	unchanged bool
	body      []byte
	sum       [sha256.Size]byte
	// retryAfter is the wait that the server asks for; 0 if none.
	retryAfter time.Duration
	// arrived is when the header of the answer came.
	arrived time.Time
}

// fetcher requests the URL.
type fetcher struct {
	target    *url.URL
	timeout   time.Duration
	transport *transport
	// last is the sum of the body of the last remembered answer.
	last *[sha256.Size]byte
}

func newFetcher(target *url.URL, opts Options) *fetcher {
	return &fetcher{target: target, timeout: cmp.Or(opts.timeout, requestTimeout), transport: newTransport(target, opts)}
}

func (f *fetcher) close() { f.transport.close() }

// remember stores the answer, with which the next ones are compared.
func (f *fetcher) remember(a answer) { f.last = &a.sum }

// forget makes that the next answer is not compared.
func (f *fetcher) forget() { f.last = nil }

// fetch sends one request.
func (f *fetcher) fetch(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client, err := f.transport.client()
	if err != nil {
		return answer{}, sources.Because(sources.ReasonCredentials, err)
	}
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, f.target.String(), nil)
	if err != nil {
		return answer{}, errors.New("creating the request failed") // the error of net/http contains the URL
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, f.explain("requesting the URL", err)
	}
	defer resp.Body.Close()
	a := answer{
		arrived:    time.Now(),
		retryAfter: sources.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter),
	}
	if resp.StatusCode != nethttp.StatusOK {
		return a, sources.Because(sources.ReasonOfCode(resp.StatusCode), fmt.Errorf("the server answered %s", resp.Status))
	}
	if a.body, err = manifest.Read(resp.Body, 0); err != nil {
		return a, f.explain("reading the answer", err)
	}
	a.sum = sha256.Sum256(a.body)
	a.unchanged = f.last != nil && a.sum == *f.last
	return a, nil
}

// explain returns an error for a failed step. It removes the URL, which may contain
// secrets, from an error of net/http.
func (f *fetcher) explain(doing string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: no complete answer within %v: %w", doing, f.timeout, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
