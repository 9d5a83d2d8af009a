package proxy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/loopback"
)

// readingCalls are the gRPC calls that pass. They change nothing.
var readingCalls = map[string]bool{
	"/podconfigd.v1alpha1.PodConfig/Watch":                           true,
	"/podconfigd.v1alpha1.PodConfig/List":                            true,
	"/podconfigd.v1alpha1.PodConfig/Status":                          true,
	"/podconfigd.v1alpha1.PodConfig/History":                         true,
	"/podconfigd.v1alpha1.PodConfig/Lookup":                          true,
	"/podconfigd.v1alpha1.PodConfig/LookupStream":                    true,
	"/podconfigd.v1alpha1.PodConfig/WatchContainers":                 true,
	"/podconfigd.v1alpha1.PodConfig/ListContainers":                  true,
	"/v1alpha1.Pods/WatchPods":                                       true,
	"/v1alpha1.Pods/ListPods":                                        true,
	"/v1alpha1.Pods/GetPod":                                          true,
	"/grpc.health.v1.Health/Check":                                   true,
	"/grpc.health.v1.Health/List":                                    true,
	"/grpc.health.v1.Health/Watch":                                   true,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
}

// passingHeaders are the headers of a request that pass. All others are removed: with some of them, a
// client could be another user for a gateway, or change the method or the path.
var passingHeaders = []string{
	"Accept", "Accept-Encoding", "Content-Type", "If-None-Match", "User-Agent",
	"Grpc-Accept-Encoding", "Grpc-Encoding", "Grpc-Timeout", "Te",
}

// passingAnswers are the headers of an answer that pass. The others include cookies. With a cookie, a
// gateway could take every user of the proxy for its owner.
var passingAnswers = []string{
	"Allow", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Etag", "Retry-After", "Vary", "Warning",
	"X-Content-Type-Options", v1alpha1.RestoredHeader,
	"Content-Security-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Frame-Options", // of the page
	"Grpc-Accept-Encoding", "Grpc-Encoding", "Grpc-Message", "Grpc-Status", "Grpc-Status-Details-Bin",
}

// passAnswer leaves out of an answer what does not pass.
func passAnswer(r *http.Response) error {
	if r.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("the server switches protocols, which podconfigd does not")
	}
	keepPassing(r.Header)
	keepPassing(r.Trailer)
	r.Body = trailed{r.Body, r}
	return nil
}

func keepPassing(header http.Header) {
	maps.DeleteFunc(header, func(name string, _ []string) bool { return !slices.Contains(passingAnswers, name) })
}

// trailed is the body of an answer. The trailers come with its end.
type trailed struct {
	io.ReadCloser
	answer *http.Response
}

// Read leaves out of the trailers what does not pass.
func (t trailed) Read(into []byte) (int, error) {
	n, err := t.ReadCloser.Read(into)
	if err != nil {
		keepPassing(t.answer.Trailer)
	}
	return n, err
}

// final writes the answer to a request. It leaves out informational answers: their headers are not
// filtered.
type final struct{ http.ResponseWriter }

// WriteHeader writes the header of the answer.
func (f final) WriteHeader(code int) {
	if code >= http.StatusOK {
		f.ResponseWriter.WriteHeader(code)
	}
}

// Unwrap returns the writer, for its Flush.
func (f final) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// check returns the status and the reason with which a request is refused. The status is 0 for a request
// that passes: it only reads, and every server reads its path in the same way.
func check(r *http.Request) (code int, why string) {
	if why := loopback.WebPage(r); why != "" {
		return http.StatusForbidden, why
	}
	if why := unclean(r.URL); why != "" && r.Method != http.MethodConnect {
		return http.StatusBadRequest, why
	}
	switch path := r.URL.Path; {
	case slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method):
		if r.ContentLength != 0 {
			return http.StatusBadRequest, r.Method + " takes no body"
		}
	case isCall(r) && !readingCalls[path]:
		return http.StatusForbidden, fmt.Sprintf("podconfigctl proxy only reads: send the call %s to the socket, or to the https address, of podconfigd", path)
	case isCall(r):
	case apistatus.Instead(path) != "":
		return http.StatusMethodNotAllowed, apistatus.Instead(path)
	case under(path, "/api/", "/apis/"):
		return http.StatusMethodNotAllowed, r.Method + " is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver"
	default:
		return http.StatusMethodNotAllowed, "podconfigctl proxy only reads: send the request to the socket, or to the https address, of podconfigd"
	}
	return 0, ""
}

func under(path string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// isCall reports whether the request is a call of gRPC.
func isCall(r *http.Request) bool {
	return r.Method == http.MethodPost && r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// marks are the characters of a path besides letters and digits: those of RFC 3986 without the
// semicolon, behind which some servers read parameters.
const marks = "/-._~!$&'()*+,:=@"

// unclean returns why the target of a request is refused; "" if it is a path that no server can read as
// another one. It has no escape that matters, even if a server removes escapes twice.
func unclean(target *url.URL) (why string) {
	path := target.Path
	if target.Scheme != "" || target.Opaque != "" || target.Host != "" || !strings.HasPrefix(path, "/") {
		return "the target of the request is no path: send a path that begins with /, without a scheme and a host"
	}
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	}
	if i := strings.IndexFunc(path, other); i >= 0 {
		c, _ := utf8.DecodeRuneInString(path[i:])
		return badPath(c)
	}
	if escaped := target.EscapedPath(); strings.Count(escaped, "/") != strings.Count(path, "/") {
		return badPath('%')
	}
	segments := strings.Split(strings.TrimSuffix(path[1:], "/"), "/")
	if path != "/" && slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
		return `the path of the request has an empty segment, "." or "..": send the path that is meant`
	}
	return uncleanQuery(target.RawQuery)
}

func uncleanQuery(query string) (why string) {
	bad := func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }
	if i := strings.IndexFunc(query, bad); i >= 0 {
		return fmt.Sprintf("the query of the request has %q: escape it with %%", query[i])
	}
	if _, err := url.ParseQuery(query); err != nil {
		return fmt.Sprintf("the query of the request can't be parsed: %v: send NAME=VALUE, joined by &", err)
	}
	return ""
}

func badPath(c rune) string {
	return fmt.Sprintf("the path of the request has %q: only letters, digits, / and %s are allowed: send the path without escapes", c, marks[1:])
}

// rewrite makes the request for the daemon. It copies only what was checked.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL = &url.URL{Path: r.In.URL.Path}
	r.Out.Host, r.Out.TransferEncoding, r.Out.Trailer = "", nil, nil
	r.Out.Header = make(http.Header)
	for _, name := range passingHeaders {
		if values := r.In.Header[name]; values != nil {
			r.Out.Header[name] = values
		}
	}
	if !isCall(r.In) {
		r.Out.URL.RawQuery = r.In.URL.RawQuery
		r.Out.Proto, r.Out.ProtoMajor, r.Out.ProtoMinor = "HTTP/1.1", 1, 1 // HTTP/2 is for calls
		r.Out.Header.Del("Te")
	}
}
