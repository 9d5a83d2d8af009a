package http

import (
	"compress/gzip"
	"io"
	nethttp "net/http"
	"testing"
)

func TestGzip(t *testing.T) {
	s := newSite(t, false)
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			w.WriteHeader(nethttp.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, single("web", "1"))
		_ = z.Close()
	})
	run(t, Options{URL: s.URL}).expect("web=1")
}
