package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/kubeapi"
)

const (
	// headerTimeout is how long a client may take to send a request's header, and
	// maxHeader how many bytes it may have.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// maxQuery is how many bytes a query may have.
	maxQuery = 16 << 10
	// idleTimeout is how long a connection without a request is kept.
	idleTimeout = 2 * time.Minute
	// listBuffer is how many bytes of a list go out together.
	listBuffer = 16 << 10
	// drainTimeout is how long requests have to end when the server does.
	drainTimeout = time.Second
)

// Options are what a server serves.
type Options struct {
	Journal *journal.Journal
	// Status returns the object of /v1alpha1/status.
	Status func() v1alpha1.Status
	// Live and Ready are the checks of /livez and /healthz, and of /readyz.
	Live, Ready []Check
	// Runtime returns the object of /v1alpha1/runtime; nil where there is no runtime.
	Runtime func() v1alpha1.RuntimePods
	// Resync sends a SYNC for one pod; nil if that is not possible. An error with a status,
	// see k8s.io/apimachinery/pkg/api/errors, is the answer. Other errors are answered 503.
	Resync func(ctx context.Context, namespace, name string) error
	// Version is the object of /version.
	Version any
	// Limits bound what clients may have.
	Limits Limits
	// Registerer takes the server's metrics, nil for none; Gatherer has what /metrics
	// shows.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// Server serves the journal and what belongs to it.
type Server struct {
	journal *journal.Journal
	opts    Options
	metrics *metrics
	limits  *limiter
	health  *health.Server
}

// New returns a server. It does nothing before Run.
func New(opts Options) *Server {
	return &Server{
		journal: opts.Journal, opts: opts, metrics: newMetrics(opts.Registerer),
		limits: newLimiter(opts.Limits), health: health.NewServer(),
	}
}

// Run serves the listener until the context is done, ends every stream, and
// returns the context's cause. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.tellHealth(ctx) })
	group.Go(func() error {
		return s.run(ctx, l, s.Handler(), func(ctx context.Context) *grpc.Server { return s.newGRPC(ctx, false) })
	})
	return group.Wait()
}

// RunPodsAPI serves the kubelet's Pods API alone, beside Run, as the kubelet does on a
// socket of its own.
func (s *Server) RunPodsAPI(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, http.HandlerFunc(onlyGRPC), func(ctx context.Context) *grpc.Server { return s.newGRPC(ctx, true) })
}

func (s *Server) run(ctx context.Context, l net.Listener, plain http.Handler, modern func(context.Context) *grpc.Server) error {
	split := newSplitter(l, &s.limits.sockets)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return split.run(ctx) })
	if kept, ok := l.(*listener); ok {
		remakes := s.metrics.remakes.WithLabelValues(l.Addr().String())
		group.Go(func() error { return kept.keep(ctx, remakes.Inc) })
	}
	group.Go(func() error { return s.serve(ctx, split.plain, plain) })
	group.Go(func() error { return serveGRPC(ctx, modern(ctx), split.modern) })
	group.Go(func() error { return serve(ctx, split.refusedPlain, s.refuser()) })
	group.Go(func() error { return serveGRPC(ctx, s.grpcRefuser(), split.refusedModern) })
	return group.Wait()
}

// onlyGRPC tells who speaks plain HTTP that it is the wrong socket.
func onlyGRPC(w http.ResponseWriter, _ *http.Request) {
	respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound,
		"this socket speaks gRPC only, as the kubelet's Pods API; podconfigd's own socket speaks HTTP too")
}

// MaxConnections is how many connections to sockets may be open at a time.
func (s *Server) MaxConnections() int { return s.limits.sockets.connections.all }

// unready returns what is wrong by the checks of /readyz, or nil.
func (s *Server) unready() error {
	for _, c := range s.opts.Ready {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

// RunMetrics serves nothing but metrics and health, for a listener that others than
// the socket's users can reach.
func (s *Server) RunMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	s.handleMetrics(mux, &s.limits.scrapes)
	split := newSplitter(l, &s.limits.tcp)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return split.run(ctx) })
	for _, side := range []*handedOn{split.plain, split.modern} { // net/http refuses HTTP/2 itself
		group.Go(func() error { return s.serve(ctx, side, readOnly(mux)) })
	}
	for _, side := range []*handedOn{split.refusedPlain, split.refusedModern} {
		group.Go(func() error { return serve(ctx, side, s.refuser()) })
	}
	return group.Wait()
}

// serve serves HTTP/1.1.
func (s *Server) serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	return serve(ctx, l, &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.limits.listTimeout, // of a request
		WriteTimeout:      s.limits.listTimeout, // of an answer; see admittedConn.stream for those without end
		IdleTimeout:       idleTimeout,
	})
}

func serve(ctx context.Context, l net.Listener, server *http.Server) error {
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
		_ = server.Close() // whoever does not read is cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	}
	return context.Cause(ctx)
}

// Handler returns what the server answers to requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1alpha1/updates", s.updates)
	lists := &s.limits.lists
	mux.HandleFunc("/v1alpha1/status", limited(lists, func(w http.ResponseWriter, _ *http.Request) { respond.JSON(w, s.opts.Status()) }))
	mux.HandleFunc("/v1alpha1/runtime", limited(lists, s.containerRuntime))
	mux.HandleFunc("/pods", limited(lists, s.pods))
	mux.HandleFunc("/pods/{$}", limited(lists, s.pods))
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { respond.JSON(w, s.opts.Version) })
	s.handleMetrics(mux, lists)
	kubeapi.Register(mux, kubeapi.Options{
		Journal: s.journal, Unready: s.unready, ReadyTimeout: kubeapi.DefaultReadyTimeout, ListTimeout: s.limits.listTimeout,
		List:      func(ctx context.Context) (func(), error) { return s.limits.list(peerFrom(ctx)) },
		Subscribe: s.subscribe,
		Client:    func(r *http.Request) journal.Client { return peerFrom(r.Context()).client(r.UserAgent()) },
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf(
			"there is nothing at %s; there is /v1alpha1/updates, /v1alpha1/status, /v1alpha1/runtime, /v1alpha1/resync, /pods, /api/v1/pods, /healthz, /livez, /readyz, /metrics and /version",
			r.URL.Path))
	})
	return wellFormed(s.handleResync(kubeapi.Writes(readOnly(mux), kubeapi.DefaultBodyTimeout)))
}

// wellFormed refuses queries that are too long, and bodies where none is wanted: with
// one that does not come, net/http does not notice that the client has gone.
func wellFormed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Set("Connection", "close")
			respond.Error(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, r.Method+" takes no body")
			return
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

// handleMetrics serves health, and metrics to as many clients as lists has places.
func (s *Server) handleMetrics(mux *http.ServeMux, lists *counter) {
	s.handleHealth(mux)
	mux.HandleFunc("/metrics", limited(lists, promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{}).ServeHTTP))
}

func (s *Server) handleHealth(mux *http.ServeMux) {
	live := append([]Check{ping}, s.opts.Live...)
	mux.HandleFunc("/healthz", healthHandler("healthz", live))
	mux.HandleFunc("/livez", healthHandler("livez", live))
	mux.HandleFunc("/readyz", healthHandler("readyz", append([]Check{ping}, s.opts.Ready...)))
}

// readOnly refuses every method that would write.
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

// limited has the handler take a place while it answers.
func limited(places *counter, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		release, refusal := places.take(peerFrom(r.Context()))
		if refusal != nil {
			respond.Status(w, respond.TooMany(refusal))
			return
		}
		defer release()
		handle(w, r)
	}
}

// pods answers with the present pods, as the kubelet's /pods: without mirror pods, unless
// they are asked for.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r.URL.RawQuery, []string{"mirrorPods"})
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	mirrorPods, err := parseBool(values["mirrorPods"], false)
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("parameter \"mirrorPods\": %w", err))
		return
	}
	selector := view.Selector{NoMirrorPods: !mirrorPods}
	state := s.journal.State()
	state.Pods = slices.DeleteFunc(state.Pods, func(p *journal.Pod) bool { return !selector.Matches(p) })
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, listBuffer)
	if err = wire.WriteList(out, state.Revision, state.Pods); err == nil {
		err = out.Flush()
	}
	if err != nil {
		klog.FromContext(r.Context()).V(3).Info("Writing the pods failed", "err", err)
	}
}
