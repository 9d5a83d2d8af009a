// Package proxy serves a daemon on a loopback port, without credentials, for reading.
package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/loopback"
)

const (
	// headerTimeout is the time in which a client must send the header of a request, and
	// idleTimeout the time after which a connection without a request is closed.
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// bodyTimeout is the time in which a client must send the body of a request. For a review, the
	// daemon has a shorter one.
	bodyTimeout = 15 * time.Second
	// drainTimeout is the time in which requests must end when the proxy stops.
	drainTimeout = time.Second
)

// Serve passes requests to the daemon until the context is done. Then it ends all streams and
// closes the listener. The daemon is what sends requests to it: *client.Client.
func Serve(ctx context.Context, l net.Listener, daemon http.RoundTripper) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler: handler(daemon), Protocols: new(http.Protocols),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    log.New(io.Discard, "", 0), // what it has is about clients, and not for the user
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		cancel()
		drain, done := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer done()
		if server.Shutdown(drain) != nil {
			_ = server.Close() // some client does not read
		}
	})
	err := server.Serve(l)
	if stop() {
		return err
	}
	<-stopped
	return nil
}

func handler(daemon http.RoundTripper) http.Handler {
	pass := &httputil.ReverseProxy{
		Transport: daemon, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Header.Del("Authorization") // the proxy has its own credentials
			if !takesBody(r.In) {
				r.Out.Body, r.Out.ContentLength = http.NoBody, 0
				r.Out.Header.Del("Expect")
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil && !isCall(r) { // the client has gone, or the proxy stops
				panic(http.ErrAbortHandler) // no answer: net/http would send 200
			}
			refuse(w, r, http.StatusBadGateway, err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := awaitBody(w, r); err != nil {
			code := http.StatusBadRequest
			if errors.Is(err, os.ErrDeadlineExceeded) {
				code = http.StatusRequestTimeout
			}
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
			refuse(w, r, code, "reading the body of the request: "+err.Error())
			return
		}
		switch why := loopback.WebPage(r); {
		case why != "":
			refuse(w, r, http.StatusForbidden, why)
		case writes(r):
			refuse(w, r, http.StatusForbidden, "podconfigd proxy only reads: send the request to the socket, or to the https address, of podconfigd")
		case r.ContentLength != 0 && !isCall(r) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			refuse(w, r, http.StatusBadRequest, r.Method+" takes no body")
		default:
			pass.ServeHTTP(w, r)
		}
	})
}

// writingCalls are the gRPC calls that change something.
var writingCalls = map[string]bool{
	"/podconfigd.v1alpha1.PodConfig/Resync":  true,
	"/podconfigd.v1alpha1.PodConfig/Release": true,
}

// writes reports whether a request may change something. The Kubernetes API of the daemon
// answers such requests itself.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodConnect, http.MethodTrace:
		return true
	}
	return strings.HasPrefix(r.URL.Path, "/v1alpha1/") || writingCalls[r.URL.Path]
}

// reviews are the requests of the Kubernetes API whose body the daemon reads.
var reviews = map[string]bool{
	"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": true,
	"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews":  true,
}

// takesBody reports whether the daemon reads the body of a request.
func takesBody(r *http.Request) bool {
	return isCall(r) || reviews[strings.TrimSuffix(r.URL.Path, "/")]
}

// awaitBody limits the time for the body of a request. It reads a body that the daemon does not read:
// the daemon answers at once and closes the connection, and a sender that still writes would take
// that for a failure and miss the answer. A client that expects 100 Continue sends no body.
func awaitBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 || isCall(r) {
		return nil
	}
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(bodyTimeout)) // if the connection is closed, reads fail too
	body := &timedBody{r.Body, func() { _ = deadline.SetReadDeadline(time.Time{}) }}
	if takesBody(r) || r.Header.Get("Expect") != "" {
		r.Body = body
		return nil
	}
	_, err := io.Copy(io.Discard, body)
	return err
}

// timedBody is a body with a deadline, which ends with the body.
type timedBody struct {
	io.ReadCloser
	ended func()
}

func (b *timedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if errors.Is(err, io.EOF) {
		b.ended()
	}
	return n, err
}

// isCall reports whether the request is a call of gRPC.
func isCall(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// callCodes are the codes of gRPC: PERMISSION_DENIED and UNAVAILABLE. reasons are those of the
// Kubernetes API.
var (
	callCodes = map[int]int{http.StatusForbidden: 7, http.StatusBadGateway: 14}
	reasons   = map[int]metav1.StatusReason{
		http.StatusBadRequest:     metav1.StatusReasonBadRequest,
		http.StatusForbidden:      metav1.StatusReasonForbidden,
		http.StatusRequestTimeout: metav1.StatusReasonTimeout,
		http.StatusBadGateway:     metav1.StatusReasonServiceUnavailable,
	}
)

func refuse(w http.ResponseWriter, r *http.Request, code int, message string) {
	header := w.Header()
	if isCall(r) {
		header.Set("Content-Type", "application/grpc")
		header.Set("Grpc-Status", strconv.Itoa(callCodes[code]))
		header.Set("Grpc-Message", url.PathEscape(message))
		return
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the client may be gone
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: message,
	})
}
