// Package page has the page that shows a node in a browser:
//
//	mux := page.Or(api) // browsers get the page at /, all other requests go to api
//
// The files of the page hold nothing of the node. Their code reads the interfaces that all clients have, with the rights
// of the browser.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed files
var files embed.FS

// Prefix is the path of the files besides the page itself, which is at /.
const Prefix = "/page/"

// policy lets the page load its own files and read its own server, and nothing else. No text can
// become markup or code in it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Headers are the headers that protect the page. A proxy must pass them on.
var Headers = map[string]string{
	"Content-Security-Policy":      policy,
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// file is a file of the page, as it is sent.
type file struct {
	name, tag, kind string
	data            []byte
}

// kinds are the content types. The tables of the system can differ.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// byPath returns the files by path.
var byPath = sync.OnceValue(func() map[string]file {
	all := make(map[string]file)
	names, _ := fs.Glob(files, "files/*") // the pattern is valid
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is in the binary
		}
		f := file{
			name: path.Base(name), data: data, kind: kinds[path.Ext(name)],
			tag: fmt.Sprintf(`"%x"`, sha256.Sum256(data)),
		}
		all[Prefix+f.name] = f
	}
	all["/"] = all[Prefix+"index.html"]
	return all
})

// Wanted reports whether a request is for a file of the page. At /, only browsers get the page.
func Wanted(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if r.URL.Path == "/" {
		return strings.Contains(r.Header.Get("Accept"), "text/html")
	}
	if !strings.HasPrefix(r.URL.Path, Prefix) {
		return false
	}
	_, ok := byPath()[r.URL.Path]
	return ok
}

// Serve answers a request that is [Wanted].
func Serve(w http.ResponseWriter, r *http.Request) {
	f := byPath()[r.URL.Path]
	header := w.Header()
	for name, value := range Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", f.kind)
	header.Set("Cache-Control", "no-cache") // asks with the ETag each time
	header.Set("Etag", f.tag)
	header.Set("Vary", "Accept")
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.data))
}

// Or returns a handler that serves the page, and passes all other requests to next.
func Or(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Wanted(r) {
			Serve(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
