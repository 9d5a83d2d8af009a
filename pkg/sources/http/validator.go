package http

import (
	nethttp "net/http"
	"strings"
	"time"
)

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
