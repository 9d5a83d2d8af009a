package http

import (
	nethttp "net/http"
	"strings"
	"time"
)

// maxETag is how long an ETag may be: it is sent back with each request.
const maxETag = 1024

// racyWindow is how old what is served must be for its validator to prove that
// nothing was written since: servers make an ETag of a time in seconds and a size.
const racyWindow = 2 * time.Second

// validator is what a server can tell by that it would serve the same again: an ETag
// or, where there is none, the time of the last modification. Its zero value is none.
//
// RFC 9110, sections 8.8 and 13.1.
type validator struct{ etag, modified string }

// validatorOf returns the answer's validator, if it can be relied on.
func validatorOf(header nethttp.Header) validator {
	etag, last := header.Get("ETag"), header.Get("Last-Modified")
	if len(etag) > maxETag {
		etag = ""
	}
	modified, err := nethttp.ParseTime(last)
	if err != nil {
		return validator{etag: etag} // it is not made of a time
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

// proves tells whether the header of a 304 says that it would serve the same again.
// "Not modified since" does not: it is also true of an older file that was put in the
// place of a newer one. That is told by the time, which must be there and the same. An
// ETag, if there is one, must be that which was asked for.
func (v validator) proves(header nethttp.Header) bool {
	if v.etag == "" {
		return v.modified != "" && header.Get("Last-Modified") == v.modified
	}
	now := header.Get("ETag")
	return now == "" || strings.TrimPrefix(now, "W/") == strings.TrimPrefix(v.etag, "W/")
}
