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

// requestTimeout is how long an answer may take, from the connection to its last
// byte.
//
// kubelet: pkg/kubelet/config/http.go NewSourceURL.
const requestTimeout = 10 * time.Second

// maxConditional is after how many conditional requests one is made without a condition:
// a file can be replaced by another of the same time, and a cache on the way may answer
// for a server that it no longer asks.
const maxConditional = 10

// answer is what the server said.
type answer struct {
	// unchanged: there is nothing new since the last answer that was remembered.
	unchanged bool
	body      []byte
	sum       [sha256.Size]byte
	validator validator
	// retryAfter is how long the server asks to be left alone; 0 where it does not say.
	retryAfter time.Duration
}

// fetcher asks the URL.
type fetcher struct {
	target    *url.URL
	timeout   time.Duration
	transport *transport
	// validator is that of the last answer that was remembered, and last the sum of its
	// body, for servers without one.
	validator validator
	last      *[sha256.Size]byte
	// conditional counts the requests since the last that was made without a condition.
	conditional int
}

func newFetcher(target *url.URL, opts Options) *fetcher {
	return &fetcher{target: target, timeout: cmp.Or(opts.timeout, requestTimeout), transport: newTransport(target, opts)}
}

func (f *fetcher) close() { f.transport.close() }

// remember makes the answer the one that the next are compared with.
func (f *fetcher) remember(a answer) { f.validator, f.last = a.validator, &a.sum }

// fetch asks once.
func (f *fetcher) fetch(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client, err := f.transport.client()
	if err != nil {
		return answer{}, err
	}
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, f.target.String(), nil)
	if err != nil {
		return answer{}, errors.New("making the request failed") // its error has the URL in it
	}
	if f.validator != (validator{}) && f.conditional < maxConditional {
		f.validator.ask(req.Header)
		f.conditional++
	} else {
		f.conditional = 0
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, f.explain("asking the server", err)
	}
	defer resp.Body.Close()
	a := answer{
		retryAfter: sources.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter),
		validator:  validatorOf(resp.Header),
	}
	switch {
	case resp.StatusCode == nethttp.StatusNotModified && f.validator.proves(resp.Header):
		a.unchanged = true
		return a, nil
	case resp.StatusCode == nethttp.StatusNotModified && f.validator != (validator{}):
		f.validator = validator{}
		return f.fetch(ctx)
	case resp.StatusCode != nethttp.StatusOK:
		return a, fmt.Errorf("the server answered %s", resp.Status)
	}
	if a.body, err = manifest.Read(resp.Body); err != nil {
		return a, f.explain("reading the answer", err)
	}
	a.sum = sha256.Sum256(a.body)
	if a.unchanged = f.last != nil && a.sum == *f.last; a.unchanged {
		f.validator = a.validator
	}
	return a, nil
}

// explain says what failed. It takes off what net/http puts around an error: a URL, in
// which secrets may stand.
func (f *fetcher) explain(doing string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: there was no whole answer within %v: %w", doing, f.timeout, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
