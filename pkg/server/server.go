package server

import (
	"context"
	"iter"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/kubeapi"
)

const (
	// headerTimeout is the time in which a client must send the header of a request.
	// maxHeader is the maximum size of a header in bytes.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// idleTimeout is the time after which a connection without a request is closed.
	idleTimeout = 2 * time.Minute
	// drainTimeout is the time in which requests must end when the server stops.
	drainTimeout = time.Second
)

// Options configures a server.
type Options struct {
	Journal *journal.Journal
	// Policy has the access rules; nil shows everything to all clients.
	Policy *access.Policy
	// PolicyAfter is the last revision that may have been served by other access rules before the
	// start; 0 for none. Streams do not resume from it or from before.
	PolicyAfter int64
	// Status returns the object of /v1alpha1/status.
	Status func() v1alpha1.Status
	// Live has the checks of /livez and /healthz. Ready has the checks of /readyz.
	Live, Ready []Check
	// Runtime returns the object of /v1alpha1/runtime; nil without a container runtime.
	Runtime func() v1alpha1.RuntimePods
	// Lookup answers /v1alpha1/lookup; nil for none.
	Lookup *lookup.Lookup
	// History returns the changes on disk, oldest first; nil without a state directory. See
	// history.Read.
	History func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error]
	// Resync sends a SYNC for one pod; nil if that is not possible. An error with a status,
	// see k8s.io/apimachinery/pkg/api/errors, is the answer. Other errors are answered 503.
	Resync func(ctx context.Context, namespace, name string) error
	// Release merges the held set of a source; nil if sets are never held. Its errors are
	// answered like those of Resync.
	Release func(ctx context.Context, source string, most *int) error
	// Version is the object of /version.
	Version any
	// Limits limits what clients may have.
	Limits Limits
	// Registerer registers the metrics of the server; nil for none. Gatherer has the metrics
	// that /metrics serves.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// Server serves the journal.
type Server struct {
	gate    *view.Gate
	denied  denied
	opts    Options
	metrics *metrics
	limits  *limiter
	health  *health.Server
	// statuses makes answers with the status.
	statuses *answers
	// historyReads has an element for each page of history that is being read.
	historyReads chan struct{}
}

// New returns a server. It does nothing before Run.
func New(opts Options) *Server {
	gate := view.NewGate(opts.Journal, opts.Policy)
	gate.Distrust(opts.PolicyAfter)
	opts.Journal = nil // handlers get pods only through the gate
	s := &Server{
		gate: gate, opts: opts, metrics: newMetrics(opts.Registerer),
		limits: newLimiter(opts.Limits), health: health.NewServer(),
		statuses:     newAnswers(),
		historyReads: make(chan struct{}, maxHistoryReads),
	}
	s.limits.count(s.metrics)
	return s
}

// Run serves the listener until the context is done. Then it ends every stream, closes the
// listener, and returns the cause of the context.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.updateHealth(ctx) })
	group.Go(func() error { return s.RunSocket(ctx, l) })
	return group.Wait()
}

// RunSocket serves the same as Run on a further socket, while Run runs.
func (s *Server) RunSocket(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, s.handler(), func(ctx context.Context) *grpc.Server { return s.newGRPC(ctx, false) })
}

// RunPodsAPI serves only the Pods API of the kubelet, on a socket of its own as the kubelet
// does. It can run at the same time as Run.
func (s *Server) RunPodsAPI(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, http.HandlerFunc(onlyGRPC), func(ctx context.Context) *grpc.Server { return s.newGRPC(ctx, true) })
}

func (s *Server) run(ctx context.Context, l net.Listener, plain http.Handler, modern func(context.Context) *grpc.Server) error {
	places := &s.limits.sockets
	if l.Addr().Network() != "unix" {
		places = &s.limits.local
	}
	split := newSplitter(l, &places.gate)
	split.places = places
	group, ctx := errgroup.WithContext(ctx)
	serving := untilSplit(ctx, group, split)
	if kept, ok := l.(*listener); ok {
		remakes := s.metrics.remakes.WithLabelValues(l.Addr().String())
		group.Go(func() error { return kept.keep(ctx, remakes.Inc) })
	}
	group.Go(func() error { return s.serve(serving, split.plain, plain) })
	group.Go(func() error { return serveGRPC(serving, modern(serving), split.modern) })
	group.Go(func() error { return serve(serving, split.refusedPlain, s.refuser(s.handleHealth)) })
	group.Go(func() error { return serveGRPC(serving, s.grpcRefuser(), split.refusedModern) })
	return group.Wait()
}

// MaxConnections returns the maximum number of open connections to sockets.
func (s *Server) MaxConnections() int {
	all, _ := s.limits.sockets.connections.limits()
	return all
}

// RunMetrics serves only metrics and health, for a listener that is not limited to the
// users of the socket.
func (s *Server) RunMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	s.handleMetrics(mux, func(ctx context.Context) (func(), error) { return s.limits.scrapes.take(peerFrom(ctx)) })
	split := newSplitter(l, &s.limits.tcp)
	group, ctx := errgroup.WithContext(ctx)
	serving := untilSplit(ctx, group, split)
	for _, side := range []*handedOn{split.plain, split.modern} { // net/http refuses HTTP/2
		group.Go(func() error { return s.serve(serving, side, readOnly(mux)) })
	}
	for _, side := range []*handedOn{split.refusedPlain, split.refusedModern} {
		group.Go(func() error { return serve(serving, side, s.refuser(s.handleHealth)) })
	}
	return group.Wait()
}

// handleMetrics serves health and metrics. Requests for metrics take a place.
func (s *Server) handleMetrics(mux kubeapi.Router, take placeOf) {
	s.handleHealth(mux)
	mux.HandleFunc("/metrics", limited(take, promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{}).ServeHTTP))
}
