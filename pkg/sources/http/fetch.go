package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// requestTimeout is how long an answer may take, from the connection to its last
// byte.
//
// kubelet: pkg/kubelet/config/http.go NewSourceURL.
const requestTimeout = 10 * time.Second

// racyWindow is how old what is served must be for its validator to prove that
// nothing was written since: servers make an ETag of a time in seconds and a size.
const racyWindow = 2 * time.Second

// answer is what the server said.
type answer struct {
	// unchanged: there is nothing new since the last answer that was remembered.
	unchanged bool
	body      []byte
	etag      string
	// retryAfter is when the server wants to be asked again; 0 where it does not say.
	retryAfter time.Duration
}

// fetcher asks the URL.
type fetcher struct {
	target    *url.URL
	transport *transport
	// etag is that of the last answer that was remembered, and last its body, for
	// servers without ETags. Last-Modified is no use: an older file that is put in the
	// place of a newer one is not modified since, and neither is one of the same second.
	etag string
	last []byte
}

func newFetcher(target *url.URL, opts Options) *fetcher {
	return &fetcher{target: target, transport: newTransport(target, opts)}
}

func (f *fetcher) close() { f.transport.close() }

// remember makes the answer the one that the next are compared with.
func (f *fetcher) remember(a answer) { f.etag, f.last = a.etag, a.body }

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
	if f.etag != "" {
		req.Header.Set("If-None-Match", f.etag)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, withoutURL(err)
	}
	defer resp.Body.Close()
	a := answer{
		retryAfter: parseRetryAfter(resp.Header.Get("Retry-After"), time.Now()),
		etag:       etagOf(resp.Header),
	}
	switch {
	case resp.StatusCode == nethttp.StatusNotModified && f.etag != "":
		a.unchanged = true
		return a, nil
	case resp.StatusCode != nethttp.StatusOK:
		return a, fmt.Errorf("the server answered %s", resp.Status)
	}
	if a.body, err = manifest.Read(resp.Body); err != nil {
		return a, fmt.Errorf("reading the answer: %w", err)
	}
	a.unchanged = f.last != nil && bytes.Equal(a.body, f.last)
	return a, nil
}

// etagOf returns the answer's ETag, if it can be relied on.
func etagOf(header nethttp.Header) string {
	modified, err := nethttp.ParseTime(header.Get("Last-Modified"))
	if err != nil {
		return header.Get("ETag") // it is not made of a time
	}
	if now, err := nethttp.ParseTime(header.Get("Date")); err != nil || now.Sub(modified) < racyWindow {
		return ""
	}
	return header.Get("ETag")
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

// parseRetryAfter reads a number of seconds or a date.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := nethttp.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
