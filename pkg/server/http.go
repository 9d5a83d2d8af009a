package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/kubeapi"
)

// onlyGRPC answers plain HTTP on a socket that speaks only gRPC.
func onlyGRPC(w http.ResponseWriter, _ *http.Request) {
	respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound,
		"this socket speaks gRPC only, as the kubelet's Pods API; podconfigd's own socket speaks HTTP too")
}

// maxQuery is the maximum size of a query in bytes.
const maxQuery = 16 << 10

// serve serves HTTP/1.1.
func (s *Server) serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	return serve(ctx, l, &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.limits.listTimeout, // of a request
		WriteTimeout:      s.limits.listTimeout, // of an answer; admittedConn.stream removes it for a stream
		IdleTimeout:       idleTimeout,
	})
}

func serve(ctx context.Context, l net.Listener, server *http.Server) error {
	server.Handler = wellFormed(server.Handler)
	server.MaxHeaderBytes = maxHeader
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	server.ConnContext = withConn
	server.ErrorLog = klogErrors(ctx)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // closes the connections of clients that do not read
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	}
	return context.Cause(ctx)
}

// handler returns the handler of all HTTP requests.
func (s *Server) handler() http.Handler { return s.handlePosts(s.reads()) }

// reads returns the handler of the requests that change nothing.
func (s *Server) reads() http.Handler {
	mux := http.NewServeMux()
	s.route(mux)
	return kubeapi.Writes(notKubelet(readOnly(mux)), s.limits.listTimeout/3, s.seesPods)
}

// route adds the paths of the requests that change nothing.
func (s *Server) route(mux kubeapi.Router) {
	mux.HandleFunc("/v1alpha1/updates", s.scoped(s.updates))
	mux.HandleFunc("/v1alpha1/status", limited(s.list, s.status))
	mux.HandleFunc("/v1alpha1/runtime", s.listed(s.containerRuntime))
	mux.HandleFunc("/v1alpha1/history", s.listed(s.history))
	mux.HandleFunc("/v1alpha1/lookup", s.scoped(s.lookup))
	mux.HandleFunc("/pods", s.listed(s.pods))
	mux.HandleFunc("/pods/{$}", s.listed(s.pods))
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { respond.JSON(w, s.opts.Version) })
	s.handleMetrics(mux, s.list)
	kubeapi.Register(mux, kubeapi.Options{
		Gate: s.gate, Scope: s.scope, ReadyTimeout: kubeapi.DefaultReadyTimeout, ListTimeout: s.limits.listTimeout,
		List:      s.list,
		Subscribe: s.subscribe,
		Client:    httpClient,
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf(
			"there is nothing at %s; there is /v1alpha1/updates, /v1alpha1/status, /v1alpha1/runtime, /v1alpha1/history, /v1alpha1/lookup, /v1alpha1/resync, /v1alpha1/release, /pods, /api, /healthz, /livez, /readyz, /metrics and /version",
			r.URL.Path))
	})
}

// bodyWait is the time for which the server waits for a body that no handler reads.
const bodyWait = 100 * time.Millisecond

// wellFormed refuses queries that are too long, and a GET or HEAD with a body: net/http
// does not detect that a client has gone while the body of its request is missing. For other
// methods, net/http reads the body before it sends the answer. If the body does not arrive
// soon, net/http sends the answer and closes the connection.
func wellFormed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn := connFrom(r.Context()); conn != nil {
			conn.begin()
		}
		if isGRPC(r) {
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Set("Connection", "close")
			respond.Error(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, r.Method+" takes no body")
			return
		}
		if r.ContentLength != 0 {
			// Not all writers have deadlines, for example that of a test.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWait))
		}
		if n := len(r.URL.RawQuery); n > maxQuery {
			respond.Error(w, http.StatusRequestURITooLong, metav1.StatusReasonBadRequest,
				fmt.Sprintf("the query is %d bytes long: it may have %d", n, maxQuery))
			return
		}
		if r.Method == http.MethodHead {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
		}
		next.ServeHTTP(w, r)
	})
}

// readOnly refuses every method but GET and HEAD.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
				fmt.Sprintf("%s is not supported: podconfigd is read-only", r.Method))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// placeOf takes a place for the request of the context.
type placeOf func(context.Context) (release func(), refusal error)

// limited has a request take a place until the handler returns.
func limited(take placeOf, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		release, refusal := take(r.Context())
		if refusal != nil {
			respond.Status(w, respond.TooMany(refusal))
			return
		}
		defer release()
		handle(w, r)
	}
}

// listed passes the scope of the client to a handler, and counts the request as a list. A client
// that sees nothing takes no place.
func (s *Server) listed(handle func(http.ResponseWriter, *http.Request, *view.Scope)) http.HandlerFunc {
	return s.scoped(func(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
		limited(s.list, func(w http.ResponseWriter, r *http.Request) { handle(w, r, scope) })(w, r)
	})
}
