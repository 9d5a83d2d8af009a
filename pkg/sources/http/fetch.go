package http

import (
	"bytes"
	"context"
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

// maxConditional is after how many requests with nothing but a time to go by one is
// made without, for a file can be replaced by another of the same time.
const maxConditional = 10

// answer is what the server said.
type answer struct {
	// unchanged: there is nothing new since the last answer that was remembered.
	unchanged bool
	body      []byte
	validator validator
	// retryAfter is how long the server asks to be left alone; 0 where it does not say.
	retryAfter time.Duration
}

// fetcher asks the URL.
type fetcher struct {
	target    *url.URL
	transport *transport
	// validator is that of the last answer that was remembered, and last its body, for
	// servers without one.
	validator validator
	last      []byte
	// conditional counts the conditional requests since the last that was not.
	conditional int
}

func newFetcher(target *url.URL, opts Options) *fetcher {
	return &fetcher{target: target, transport: newTransport(target, opts)}
}

func (f *fetcher) close() { f.transport.close() }

// remember makes the answer the one that the next are compared with.
func (f *fetcher) remember(a answer) { f.validator, f.last = a.validator, a.body }

// fetch asks once.
func (f *fetcher) fetch(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := f.transport.client()
	if err != nil {
		return answer{}, err
	}
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, f.target.String(), nil)
	if err != nil {
		return answer{}, errors.New("making the request failed") // its error has the URL in it
	}
	if !f.validator.weak() || f.conditional < maxConditional {
		f.validator.ask(req.Header)
		f.conditional++
	} else {
		f.conditional = 0
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, withoutURL(err)
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
	case resp.StatusCode == nethttp.StatusNotModified && f.validator.modified != "":
		f.validator = validator{}
		return f.fetch(ctx)
	case resp.StatusCode != nethttp.StatusOK:
		return a, fmt.Errorf("the server answered %s", resp.Status)
	}
	if a.body, err = manifest.Read(resp.Body); err != nil {
		return a, fmt.Errorf("reading the answer: %w", err)
	}
	if a.unchanged = f.last != nil && bytes.Equal(a.body, f.last); a.unchanged {
		f.validator = a.validator
	}
	return a, nil
}

// withoutURL takes off what net/http puts around an error: a URL, in which secrets
// may stand.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if wrapped.Timeout() {
			return fmt.Errorf("there was no answer within %v: %w", requestTimeout, wrapped.Err)
		}
		err = wrapped.Err
	}
	return fmt.Errorf("asking the server: %w", err)
}
