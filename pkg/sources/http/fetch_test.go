package http

import (
	"compress/gzip"
	"errors"
	"io"
	nethttp "net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func TestConditionalRequests(t *testing.T) {
	s := newSite(t, false)
	version := "1"
	handler := func(w nethttp.ResponseWriter, r *nethttp.Request) {
		s.mu.Lock()
		now := version
		s.mu.Unlock()
		w.Header().Set("ETag", `"`+now+`"`)
		w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
		if r.Header.Get("If-None-Match") == `"`+now+`"` {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, single("web", now))
	}
	s.set(handler)
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	h.await("some 304", func(v1alpha1.SourceStatus) bool {
		_, statuses := s.seen()
		return len(statuses) > 5 && statuses[len(statuses)-1] == nethttp.StatusNotModified
	})
	s.mu.Lock()
	version = "2"
	s.mu.Unlock()
	h.expect("web=2")
	// Garbage with a validator is not remembered: the next request is not answered
	// with a 304 for it.
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("ETag", `"garbage"`)
		if r.Header.Get("If-None-Match") == `"garbage"` {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "a: [")
	})
	h.degraded("neither")
	s.set(handler)
	h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
}

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

// A file server's Last-Modified does not hide an older file that replaces a newer one. It
// hides one of the same time only for some requests.
func TestAnOlderFileInTheNewersPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pods.yaml")
	put := func(image string, modified time.Time) {
		temp := filepath.Join(t.TempDir(), "temp")
		if err := errors.Join(
			os.WriteFile(temp, []byte(single("web", image)), 0o600), os.Chtimes(temp, modified, modified), os.Rename(temp, path),
		); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, false)
	files := nethttp.FileServer(nethttp.Dir(dir))
	s.set(files.ServeHTTP)
	now := time.Now()
	put("2", now.Add(-time.Hour))
	h := run(t, Options{URL: s.URL + "/pods.yaml"})
	h.expect("web=2")
	h.await("some 304", func(v1alpha1.SourceStatus) bool {
		_, statuses := s.seen()
		return len(statuses) > 5 && statuses[len(statuses)-1] == nethttp.StatusNotModified
	})
	put("1", now.Add(-2*time.Hour))
	h.expect("web=1")
	put("3", now.Add(-2*time.Hour))
	h.expect("web=3")
}

func TestValidatorsThatCanBeReliedOn(t *testing.T) {
	const date, old = "Sat, 21 Nov 2026 00:01:00 GMT", "Sat, 21 Nov 2026 00:00:00 GMT"
	for name, test := range map[string]struct {
		etag, modified, date string
		want                 validator
	}{
		"none":                           {"", "", date, validator{}},
		"ETag":                           {`"e"`, "", date, validator{etag: `"e"`}},
		"ETag and an old modification":   {`"e"`, old, date, validator{etag: `"e"`}},
		"an old modification":            {"", old, date, validator{modified: old}},
		"ETag and a recent modification": {`"e"`, "Sat, 21 Nov 2026 00:00:59 GMT", date, validator{}},
		"a recent modification":          {"", "Sat, 21 Nov 2026 00:00:59 GMT", date, validator{}},
		"no date":                        {`"e"`, old, "", validator{}},
	} {
		t.Run(name, func(t *testing.T) {
			header := nethttp.Header{"Etag": {test.etag}, "Last-Modified": {test.modified}, "Date": {test.date}}
			if got := validatorOf(header); got != test.want {
				t.Errorf("%+v: %+v", test, got)
			}
		})
	}
}

// A 304 without the same time proves nothing. The body is requested.
func TestNotModifiedWithoutATime(t *testing.T) {
	s := newSite(t, false)
	version := "1"
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		s.mu.Lock()
		now := version
		s.mu.Unlock()
		w.Header().Set("Last-Modified", "Sat, 21 Nov 2020 00:00:00 GMT")
		_, _ = io.WriteString(w, single("web", now))
	})
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	s.mu.Lock()
	version = "2"
	s.mu.Unlock()
	h.expect("web=2")
	h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
}
