package http

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// requestTimeout is the maximum time of an answer, from the connection to its last byte.
//
// kubelet: pkg/kubelet/config/http.go NewSourceURL.
const requestTimeout = 10 * time.Second

// maxConditional is the maximum number of conditional requests in a row. A file can be
// replaced by another of the same time, and a cache may answer without asking the server.
const maxConditional = 10

// answer is the answer of the server.
type answer struct {
	// unchanged means that nothing changed since the last remembered answer.
	unchanged bool
	body      []byte
	sum       [sha256.Size]byte
	validator validator
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
	// validator is the validator of the last remembered answer. last is the sum of its
	// body, for servers without a validator.
	validator validator
	last      *[sha256.Size]byte
	// conditional counts the requests since the last one without a condition.
	conditional int
}

func newFetcher(target *url.URL, opts Options) *fetcher {
	return &fetcher{target: target, timeout: cmp.Or(opts.timeout, requestTimeout), transport: newTransport(target, opts)}
}

func (f *fetcher) close() { f.transport.close() }

// remember stores the answer, with which the next ones are compared.
func (f *fetcher) remember(a answer) { f.validator, f.last = a.validator, &a.sum }

// forget makes the next request unconditional. Its answer is not compared.
func (f *fetcher) forget() { f.validator, f.last = validator{}, nil }

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
	if f.validator != (validator{}) && f.conditional < maxConditional {
		f.validator.ask(req.Header)
		f.conditional++
	} else {
		f.conditional = 0
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, f.explain("requesting the URL", err)
	}
	defer resp.Body.Close()
	a := answer{
		arrived:    time.Now(),
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
		return a, sources.Because(sources.ReasonOfCode(resp.StatusCode), fmt.Errorf("the server answered %s", resp.Status))
	}
	if a.body, err = manifest.Read(resp.Body, 0); err != nil {
		return a, f.explain("reading the answer", err)
	}
	a.sum = sha256.Sum256(a.body)
	if a.unchanged = f.last != nil && a.sum == *f.last; a.unchanged {
		f.validator = a.validator
	}
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

// maxETag is the maximum length of an ETag, which is sent back with each request.
const maxETag = 1024

// racyWindow is the minimum age of a file for its validator to prove that it is
// unchanged. Servers make an ETag of a time in seconds and a size.
const racyWindow = 2 * time.Second

// validator identifies a version of what a server serves: an ETag or, if there is none,
// the time of the last modification. The zero value is none.
//
// RFC 9110, sections 8.8 and 13.1.
type validator struct{ etag, modified string }

// validatorOf returns the answer's validator, if it is reliable.
func validatorOf(header nethttp.Header) validator {
	etag, last := header.Get("ETag"), header.Get("Last-Modified")
	if len(etag) > maxETag {
		etag = ""
	}
	modified, err := nethttp.ParseTime(last)
	if err != nil {
		return validator{etag: etag} // it does not contain a time
	}
	if now, err := nethttp.ParseTime(header.Get("Date")); err != nil || now.Sub(modified) < racyWindow {
		return validator{}
	}
	if etag != "" {
		return validator{etag: etag}
	}
	return validator{modified: last}
}

// ask makes a request conditional.
func (v validator) ask(header nethttp.Header) {
	switch {
	case v.etag != "":
		header.Set("If-None-Match", v.etag)
	case v.modified != "":
		header.Set("If-Modified-Since", v.modified)
	}
}

// proves reports whether the header of a 304 proves that nothing changed. The status
// alone does not: it is also true for an older file that replaced a newer one. So the
// time must be there and be the same. An ETag, if there is one, must be the requested
// one.
func (v validator) proves(header nethttp.Header) bool {
	if v.etag == "" {
		return v.modified != "" && header.Get("Last-Modified") == v.modified
	}
	now := header.Get("ETag")
	return now == "" || strings.TrimPrefix(now, "W/") == strings.TrimPrefix(v.etag, "W/")
}
