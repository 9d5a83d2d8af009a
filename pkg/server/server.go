// Package server serves a journal on unix sockets and over TCP.
//
//	s := server.New(server.Options{Journal: j, Status: j.Status, Gatherer: registry})
//	l, err := socket.Listen(ctx, socket.ListenOptions{Path: "/run/podconfigd/podconfigd.sock", Mode: 0o660})
//	if err != nil {
//		return err
//	}
//	return s.Run(ctx, l)
//
// Package socket makes the sockets. Package conn has the connections and their limits. Packages
// rest, kubeapi and rpc have the protocols.
//
// # Protocols
//
// The socket speaks HTTP/1.1 and gRPC. The server distinguishes them by the preface of HTTP/2. GET
// /v1alpha1/updates is the stream, one JSON object per line; see package api/stream/v1alpha1. Other
// paths are /v1alpha1/containers, /v1alpha1/status, /v1alpha1/history, /v1alpha1/lookup, /v1alpha1/runtime, /v1alpha1/resync,
// /v1alpha1/release, /pods as the kubelet serves it, the Kubernetes API below /api, /healthz, /livez,
// /readyz, /metrics and /version. Errors are metav1.Status objects that name the invalid parameter. The
// gRPC services are podconfigd.v1alpha1.PodConfig, the Pods API of the kubelet (v1alpha1.Pods),
// grpc.health.v1 and reflection. [Server.RunPodsAPI] serves the Pods API on a socket of its own.
//
// # Subscribers
//
// Each subscriber has a goroutine and a cursor. A subscriber that stops reading blocks only
// its own writes. It is not dropped. If it falls behind the journal, it gets a reset and
// the current state. [conn.Limits] bound what one client process may have.
package server

import (
	"context"
	"iter"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/kubeapi"
	"github.com/podconfigd/podconfigd/pkg/server/rest"
	"github.com/podconfigd/podconfigd/pkg/server/rpc"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// Options configures a server.
type Options struct {
	Journal *journal.Journal
	// Policy has the access rules; nil shows everything to all clients.
	Policy *access.Policy
	// PolicyAfter is the last revision that may have been served by other access rules before the start; 0
	// for none. Streams do not resume from this revision or an earlier one.
	PolicyAfter int64
	// Status returns the object of /v1alpha1/status.
	Status func() v1alpha1.Status
	// Live has the checks of /livez and /healthz. Ready has the checks of /readyz.
	Live, Ready []Check
	// Runtime returns the object of /v1alpha1/runtime; nil without a container runtime.
	Runtime func() v1alpha1.RuntimePods
	// Lookup answers /v1alpha1/lookup; nil for none.
	Lookup *lookup.Lookup
	// Containers is the stream of containers; nil without a container runtime.
	Containers *containers.Stream
	// Owners is whether the pods of the journal have their owners.
	Owners bool
	// History returns the changes on disk, oldest first; nil without a state directory. See
	// history.Read.
	History func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error]
	// Resync sends a SYNC for one pod; nil if that is not possible. An error with a status,
	// see k8s.io/apimachinery/pkg/api/errors, is the answer. Other errors are answered 503.
	Resync func(ctx context.Context, namespace, name string) error
	// Release merges the held set of a source; nil if sets are never held. If most is not nil, the set may
	// remove at most that many pods. Errors are answered as for Resync.
	Release func(ctx context.Context, source string, most *int) error
	// Version is the object of /version.
	Version any
	// Limits limits what clients may have.
	Limits conn.Limits
	// Registerer registers the metrics of the server; nil for none. Gatherer has the metrics
	// that /metrics serves.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// Server serves the journal.
//
//	listener --> Splitter --+--> net/http --> rest, kubeapi --+
//	                        |                                 +--> Backend --> Gate --> Journal
//	                        +--> gRPC -------> rpc -----------+
//
// For each connection to a socket of [Server.Run], [Server.RunSocket] or [Server.RunPodsAPI]:
//  1. The [conn.Splitter] accepts it, counts it with the limits of its address, and finds its protocol.
//  2. net/http or gRPC serves it, and finds the handler of each request in package rest, kubeapi or rpc.
//  3. The handler converts the parameters, and takes a place: the limits count lists, streams, and lookups that wait.
//  4. The backend asks the [view.Gate] for what the client may see by the access rules: a [view.Scope].
//  5. The handler reads from the scope, and writes frames, objects or messages until the client or the server ends.
//
// A connection beyond the limits goes to a server that only refuses requests. [Server.RunHTTPS] serves both protocols on
// net/http, after it has checked the credentials. [Server.RunReadOnly] and [Server.RunMetrics] serve a part of the paths.
type Server struct {
	opts    Options
	gate    *view.Gate
	metrics *metrics
	limits  *conn.Limiter
	rest    *rest.API
	kubeapi *kubeapi.API
	rpc     *rpc.Services
}

// New returns a server. It does nothing before Run.
func New(opts Options) *Server {
	gate := view.NewGate(opts.Journal, opts.Policy)
	gate.Distrust(opts.PolicyAfter)
	opts.Journal = nil // handlers get pods only through the gate
	m := newMetrics(opts.Registerer)
	limits := conn.NewLimiter(opts.Limits, m.limited)
	b := backend.New(gate, limits, opts.Status, m.frames, m.denials)
	b.Runtime, b.Lookup, b.History = opts.Runtime, opts.Lookup, opts.History
	b.Containers = opts.Containers
	b.Resync, b.Release, b.Owners = opts.Resync, opts.Release, opts.Owners
	return &Server{
		opts: opts, gate: gate, metrics: m, limits: limits, rest: rest.New(b, opts.Version), kubeapi: kubeapi.New(b), rpc: rpc.New(b),
	}
}

// Run serves the listener until the context is done. Then it ends every stream, closes the
// listener, and returns the cause of the context.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.rpc.UpdateHealth(ctx, s.unready) })
	group.Go(func() error { return s.RunSocket(ctx, l) })
	return group.Wait()
}

// RunSocket serves the same as Run on a further socket, while Run runs.
func (s *Server) RunSocket(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, s.handler(false), func(ctx context.Context) *grpc.Server { return s.rpc.NewServer(ctx, false) })
}

// RunPodsAPI serves only the Pods API of the kubelet, on a socket of its own as the kubelet
// does. It can run at the same time as Run.
func (s *Server) RunPodsAPI(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, http.HandlerFunc(onlyGRPC), func(ctx context.Context) *grpc.Server { return s.rpc.NewServer(ctx, true) })
}

func (s *Server) run(ctx context.Context, l net.Listener, plain http.Handler, newGRPC func(context.Context) *grpc.Server) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return socket.Keep(ctx, l, s.metrics.remakes.WithLabelValues(l.Addr().String()).Inc) })
	group.Go(func() error {
		return conn.NewSplitter(l, s.limits.At(l.Addr())).Run(ctx, serving(s.httpServer(plain)), func(ctx context.Context, l net.Listener) error {
			return rpc.Serve(ctx, newGRPC(ctx), l)
		}, serving(refuser(s.handleHealth)), func(ctx context.Context, l net.Listener) error {
			return rpc.Serve(ctx, s.rpc.Refuser(), l) //nolint:contextcheck // a call has its own
		})
	})
	return group.Wait()
}

// SetLimits changes the limits while the server runs. Connections and streams beyond a new limit
// stay until they end. The number of streams in one gRPC connection and ListTimeout do not
// change.
func (s *Server) SetLimits(l conn.Limits) { s.limits.Set(l) }

// SetPolicy replaces the access rules. If a client sees something else than before, its streams get a
// reset, and its watches of the Kubernetes API end with 410, so that it lists again. SetPolicy returns the
// last revision that was served by the previous rules.
func (s *Server) SetPolicy(policy *access.Policy) (before int64) {
	before = s.gate.SetPolicy(policy)
	s.opts.Containers.Restart()
	return before
}

// MaxConnections returns the maximum number of open connections to sockets.
func (s *Server) MaxConnections() int { return s.limits.MaxConnections() }

// handleMetrics serves health and metrics. Requests for metrics take a place.
func (s *Server) handleMetrics(mux respond.Router) {
	s.handleHealth(mux)
	mux.HandleFunc("/metrics", s.limits.Listed(promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{}).ServeHTTP))
}

type metrics struct {
	frames, denials prometheus.Counter
	// remakes counts how often a socket file was created again, by socket.
	remakes *prometheus.CounterVec
	// rejections counts requests to https addresses that were refused, by reason.
	rejections *prometheus.CounterVec
	// limited counts what was refused because a limit was reached, by limit.
	limited *prometheus.CounterVec
}

// newMetrics registers the metrics of the server. If reg is nil, it registers none.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "server")
	return &metrics{
		frames:  in.Counter("stream_frames_total", "Number of frames sent to subscribers."),
		denials: in.Counter("access_denials_total", "Number of requests refused by the access rules."),
		remakes: in.CounterVec("socket_remakes_total", "Number of times that a missing socket file was created again.", "socket"),
		limited: in.CounterVec("limit_refusals_total",
			"Number of streams (subscribers), lists, scrapes, waiting lookups (waits), open calls (calls) and connections that were refused because a limit was reached, by limit.",
			"limit"),
		rejections: in.CounterVec("rejected_requests_total",
			"Number of requests to https addresses that were refused: without valid credentials (unauthorized), not allowed (forbidden), the apiserver can not be asked (unavailable), or of an address with too many failures or connections (rate).",
			"reason", "unauthorized", "forbidden", "unavailable", "rate"),
	}
}
