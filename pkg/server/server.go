package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

const (
	// headerTimeout is how long a client may take to send a request's header, and
	// maxHeader how many bytes it may have.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// idleTimeout is how long a connection without a request is kept.
	idleTimeout = 2 * time.Minute
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
	// Resync has a pod offered again; see syncloop.Loop.Resync. Nil if that can't be.
	Resync func(ctx context.Context, namespace, name string) error
	// Version is the object of /version.
	Version any
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
}

// New returns a server. It does nothing before Run.
func New(opts Options) *Server {
	return &Server{journal: opts.Journal, opts: opts, metrics: newMetrics(opts.Registerer)}
}

// Run serves the listener until the context is done, ends every stream, and
// returns the context's cause. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener) error { return serve(ctx, l, s.Handler()) }

// RunMetrics serves nothing but metrics and health, for a listener that others than
// the socket's users can reach.
func (s *Server) RunMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	s.handleMetrics(mux)
	return serve(ctx, l, readOnly(mux))
}

func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withPeer,
		ErrorLog:          klogErrors(ctx),
	}
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
	mux.HandleFunc("/v1alpha1/status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.opts.Status()) })
	mux.HandleFunc("/v1alpha1/runtime", s.runtime)
	mux.HandleFunc("/pods", s.pods)
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.opts.Version) })
	s.handleMetrics(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf(
			"there is nothing at %s; there is /v1alpha1/updates, /v1alpha1/status, /v1alpha1/runtime, /v1alpha1/resync, /pods, /healthz, /livez, /readyz, /metrics and /version",
			r.URL.Path))
	})
	return s.handleResync(readOnly(mux))
}

func (s *Server) handleMetrics(mux *http.ServeMux) {
	live := append([]Check{ping}, s.opts.Live...)
	mux.HandleFunc("/healthz", health("healthz", live))
	mux.HandleFunc("/livez", health("livez", live))
	mux.HandleFunc("/readyz", health("readyz", append([]Check{ping}, s.opts.Ready...)))
	mux.Handle("/metrics", promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{}))
}

// readOnly refuses every method that would write.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeError(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
				fmt.Sprintf("%s is not supported: podconfigd is read-only", r.Method))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// pods answers with the present pods, as the kubelet's /pods.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	pods, revision := s.journal.Pods()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, streamBuffer)
	err := journal.WriteList(out, revision, pods)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		klog.FromContext(r.Context()).V(3).Info("Writing the pods failed", "err", err)
	}
}
