package server

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/page"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/kubeapi"
	"github.com/podconfigd/podconfigd/pkg/server/rest"
)

// onlyGRPC answers plain HTTP on a socket that speaks only gRPC.
func onlyGRPC(w http.ResponseWriter, _ *http.Request) {
	respond.Error(w, http.StatusNotFound,
		"this socket speaks gRPC only, as the kubelet's Pods API; podconfigd's own socket speaks HTTP too")
}

// maxQuery is the maximum size of a query in bytes.
const maxQuery = 16 << 10

// httpServer returns a server with the timeouts for clients.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: conn.HeaderTimeout,
		ReadTimeout:       s.limits.ListTimeout, // of a request
		WriteTimeout:      s.limits.ListTimeout, // of an answer; Limiter.Subscribe removes it for a stream
		IdleTimeout:       conn.IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxConcurrentStreams,
			MaxReceiveBufferPerConnection: conn.ConnectionWindow,
			MaxReceiveBufferPerStream:     conn.StreamWindow,
		},
	}
}

// serving returns a conn.Server that serves with an http.Server.
func serving(server *http.Server) conn.Server {
	server.Handler = wellFormed(server.Handler)
	server.MaxHeaderBytes = conn.MaxHeader
	server.ConnContext = conn.With
	return func(ctx context.Context, l net.Listener) error {
		server.BaseContext = func(net.Listener) context.Context { return ctx }
		server.ErrorLog = klogErrors(ctx)
		return conn.Serve(ctx, l, server.Serve, http.ErrServerClosed, func(drain context.Context) {
			if err := server.Shutdown(drain); err != nil {
				_ = server.Close() // closes the connections of clients that do not read
			}
		})
	}
}

// handler returns the handler of all HTTP requests. If readOnly is true, it refuses requests that change
// something.
func (s *Server) handler(readOnly bool) http.Handler {
	mux := http.NewServeMux()
	s.route(mux, readOnly)
	posts, reads := s.rest.Posts(), rest.ReadOnly(mux)
	return page.Or(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch post := posts[path]; {
		case post != nil && readOnly:
			respond.Error(w, http.StatusForbidden, errReadOnly)
		case post != nil:
			post(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && kubeapi.Has(path):
			kubeapi.Write(w, r)
		default:
			reads.ServeHTTP(w, r)
		}
	}))
}

// route adds the paths of the requests that change nothing.
func (s *Server) route(mux respond.Router, readOnly bool) {
	s.rest.Route(mux)
	s.kubeapi.Route(mux)
	s.handleMetrics(mux)
	if !readOnly { // without authentication, metrics have no pods
		s.rest.RouteDevices(mux)
	}
}

// bodyWait is the time for which the server waits for a body that no handler reads.
const bodyWait = 100 * time.Millisecond

// wellFormed refuses queries that are too long, and a GET or HEAD with a body: net/http
// does not detect that a client has gone while the body of its request is missing. For other
// methods over HTTP/1.1, net/http reads the body before it sends the answer. If the body does not
// arrive soon, net/http sends the answer and closes the connection.
//
// It also tells the connection that a request has begun, and gives a request over HTTP/2 its own
// deadlines.
func wellFormed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, done := conn.WithDeadlines(w, r)
		defer done()
		if conn := conn.From(r.Context()); conn != nil { //nolint:contextcheck // it is that of the request
			conn.Begin()
		}
		if isGRPC(r) {
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Set("Connection", "close")
			respond.Error(w, http.StatusBadRequest, r.Method+" takes no body")
			return
		}
		if r.ContentLength != 0 && r.ProtoMajor == 1 {
			// Not all writers have deadlines, for example those of tests.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWait))
		}
		if n := len(r.URL.RawQuery); n > maxQuery {
			respond.Error(w, http.StatusRequestURITooLong,
				fmt.Sprintf("the query is %d bytes long: it may have %d", n, maxQuery))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuser returns the server for connections beyond the limit. It serves the paths that handle adds:
// health, because probes must not fail if there are many clients. It refuses all other requests.
func refuser(handle func(respond.Router)) *http.Server {
	mux := http.NewServeMux()
	handle(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond.Failure(w, conn.From(r.Context()).Refusal())
	})
	server := &http.Server{Handler: mux, ReadTimeout: conn.HeaderTimeout, WriteTimeout: conn.HeaderTimeout}
	server.SetKeepAlivesEnabled(false)
	return server
}

// refuseAll adds no path to a refuser: over https, health requires authentication.
func refuseAll(respond.Router) {}

// klogWriter logs the errors of net/http about single connections.
type klogWriter struct{ logger klog.Logger }

// Write logs a line.
func (w klogWriter) Write(line []byte) (int, error) {
	w.logger.V(2).Info("HTTP server", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}

func klogErrors(ctx context.Context) *log.Logger {
	return log.New(klogWriter{klog.FromContext(ctx)}, "", 0)
}

// Check is one health check.
type Check struct {
	Name string
	// Check returns the fault, or nil.
	Check func() error
}

// healthHandler answers as the health endpoints of Kubernetes do: with "ok", or with a line
// for each check if a check fails or the query has verbose. failed is the status code if a
// check fails.
func healthHandler(name string, failed int, checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var report strings.Builder
		healthy := true
		for _, c := range checks {
			if err := c.Check(); err != nil {
				healthy = false
				fmt.Fprintf(&report, "[-]%s failed: %v\n", c.Name, err)
			} else {
				fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, verbose := r.URL.Query()["verbose"]
		body := "ok"
		switch {
		case !healthy:
			w.WriteHeader(failed)
			body = report.String() + name + " check failed\n"
		case verbose:
			body = report.String() + name + " check passed\n"
		}
		_, _ = w.Write([]byte(body)) // the client may have gone away
	}
}

// ping is the check that the server answers.
var ping = Check{Name: "ping", Check: func() error { return nil }}

// unready returns the first failure of the checks of /readyz, or nil.
func (s *Server) unready() error {
	for _, c := range s.opts.Ready {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) handleHealth(mux respond.Router) {
	live := append([]Check{ping}, s.opts.Live...)
	mux.HandleFunc("/healthz", healthHandler("healthz", http.StatusInternalServerError, live))
	mux.HandleFunc("/livez", healthHandler("livez", http.StatusInternalServerError, live))
	mux.HandleFunc("/readyz", healthHandler("readyz", http.StatusServiceUnavailable, append([]Check{ping}, s.opts.Ready...)))
}
