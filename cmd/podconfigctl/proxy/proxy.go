// Package proxy serves a daemon on a loopback port, without credentials, for reading.
//
//	daemon := client.New(client.DefaultSocket())
//	return proxy.Serve(ctx, l, daemon)
//
// It passes only requests that read. A request must have a path that no server can read as another
// one. Only known headers pass, in both directions.
package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"github.com/podconfigd/podconfigd/internal/apistatus"
)

const (
	// headerTimeout is the time in which a client must send the header of a request, and
	// idleTimeout the time after which a connection without a request is closed.
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// bodyTimeout is the time in which a client must send the body of a request.
	bodyTimeout = 15 * time.Second
	// maxBody is the size up to which the body of a request is read.
	maxBody = 32 << 20
	// maxConnections is the number of open connections. Further ones wait. maxRequests is the number
	// of requests at a time.
	maxConnections = 512
	maxRequests    = 256
	// The windows and the largest frame that a client over HTTP/2 gets. Requests are small.
	connectionWindow = 128 << 10
	streamWindow     = 64 << 10
	maxFrame         = 16 << 10
	// drainTimeout is the time in which requests must end when the proxy stops.
	drainTimeout = 2 * time.Second
)

// Serve passes requests to the daemon until the context is done. Then it ends all streams and closes the
// listener. daemon sends requests to it: a *client.Client.
func Serve(ctx context.Context, l net.Listener, daemon http.RoundTripper) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler: handler(daemon), Protocols: new(http.Protocols),
		DisableGeneralOptionsHandler: true, // the target * is no path
		ReadHeaderTimeout:            headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: connectionWindow, MaxReceiveBufferPerStream: streamWindow, MaxReadFrameSize: maxFrame,
		},
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    log.New(io.Discard, "", 0), // its messages are about clients, not for the user
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
	err := server.Serve(netutil.LimitListener(l, maxConnections))
	if stop() {
		return err
	}
	<-stopped
	return nil
}

func handler(daemon http.RoundTripper) http.Handler {
	pass := &httputil.ReverseProxy{
		Transport: daemon, ErrorLog: log.New(io.Discard, "", 0), Rewrite: rewrite, ModifyResponse: passAnswer,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil && !isCall(r) { // the client has gone, or the proxy stops
				panic(http.ErrAbortHandler) // no answer: net/http would send 200
			}
			refuse(w, r, http.StatusBadGateway, err.Error())
		},
	}
	places := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusTooManyRequests, fmt.Sprintf("podconfigctl proxy has %d requests at a time, which is its limit: end one, or try again later", maxRequests))
			return
		}
		code, why := check(r)
		if err := readBody(w, r); err != nil {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
			code, why = codeOf(err), "reading the body of the request: "+err.Error()
		}
		if code != 0 {
			refuse(w, r, code, why)
			return
		}
		pass.ServeHTTP(final{w}, r)
	})
}

// readBody reads the body of a request, within limits of time and size. A
// client that still writes its body when its request is refused could see a broken connection instead of
// the answer. A client that expects 100 Continue has not sent its body.
func readBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 || isCall(r) || r.Header.Get("Expect") != "" {
		return nil
	}
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(bodyTimeout)) // if the connection is closed, reads fail too
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fmt.Errorf("it is longer than %d bytes: %w", maxBody, err)
	}
	if err != nil {
		return err
	}
	_ = deadline.SetReadDeadline(time.Time{}) // as above
	return nil
}

// codeOf returns the status for an error of a body.
func codeOf(err error) int {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// callCodes are the codes of gRPC: INVALID_ARGUMENT, PERMISSION_DENIED, RESOURCE_EXHAUSTED and
// UNAVAILABLE.
var callCodes = map[int]int{http.StatusBadRequest: 3, http.StatusForbidden: 7, http.StatusTooManyRequests: 8, http.StatusBadGateway: 14}

func refuse(w http.ResponseWriter, r *http.Request, code int, message string) {
	header := w.Header()
	if isCall(r) {
		header.Set("Content-Type", "application/grpc")
		header.Set("Grpc-Status", strconv.Itoa(callCodes[code]))
		header.Set("Grpc-Message", url.PathEscape(message))
		return
	}
	header.Set("Content-Type", "application/json")
	if code == http.StatusMethodNotAllowed {
		header.Set("Allow", "GET, HEAD")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(apistatus.Status(code, message)) // the client may be gone
}
