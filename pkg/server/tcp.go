package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/internal/loopback"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/rest"
	"github.com/podconfigd/podconfigd/pkg/server/rpc"
)

// RunMetrics serves only metrics and health, for a listener that is not limited to the
// users of the socket.
func (s *Server) RunMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	s.handleMetrics(mux)
	all := func() conn.Server { return serving(s.httpServer(rest.ReadOnly(mux))) }
	refused := func() conn.Server { return serving(refuser(s.handleHealth)) }
	return conn.NewSplitter(l, &s.limits.Metrics).Run(ctx, all(), all(), refused(), refused()) // net/http refuses HTTP/2
}

// RunHTTPS serves everything over HTTPS to clients that authenticate and are authorized: HTTP/1.1,
// HTTP/2 and gRPC.
func (s *Server) RunHTTPS(ctx context.Context, l net.Listener, config *tls.Config, auth Auth) error {
	split := conn.NewSplitter(l, &s.limits.Remote)
	split.Secure(config, s.metrics.rejections.WithLabelValues("rate").Inc)
	calls := s.rpc.NewServer(ctx, false)
	defer calls.Stop()
	guard := newGuard(auth, s.metrics)
	handler := guard.open(guard.guard(s.byProtocol(guard, calls, s.handler(false))))
	return split.Run(ctx,
		serving(s.httpServer(handler)), serving(overHTTP2(s.httpServer(handler))),
		serving(refuser(refuseAll)), serving(overHTTP2(refuser(refuseAll))))
}

// maxConcurrentStreams is the maximum number of requests at a time on one connection of HTTP/2. It
// is the default of net/http. The limits of streams, lists and calls apply besides.
const maxConcurrentStreams = 250

// overHTTP2 makes a server speak HTTP/2. The connections that it gets are decrypted.
func overHTTP2(server *http.Server) *http.Server {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// byProtocol passes calls of gRPC to calls, and other requests to rest. net/http speaks HTTP/2 for both,
// because one connection can carry both. byProtocol limits the open requests of an address: a client can
// hold a stream of HTTP/2 open by not sending the body. It refuses further requests as the guard does.
func (s *Server) byProtocol(guard *guard, calls *grpc.Server, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, refusal := s.limits.Call(r.Context())
		if refusal != nil {
			guard.refuse(w, r, http.StatusTooManyRequests, refusal.Error())
			return
		}
		defer release()
		if isGRPC(r) {
			rpc.ServeCall(calls, w, r)
		} else {
			rest.ServeHTTP(w, r)
		}
	})
}

// isGRPC reports whether a request is a call of gRPC.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// RunReadOnly serves a listener on a loopback address without authentication, as the read-only
// port of the kubelet. It serves everything but the requests that change something. It refuses
// requests that a web page makes from a browser.
func (s *Server) RunReadOnly(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, notFromWebPages(s.handler(true)), func(ctx context.Context) *grpc.Server {
		return s.rpc.NewServer(ctx, false, rpc.RefuseWrites(errReadOnly))
	})
}

// errReadOnly is the reason why a request that changes something is refused.
const errReadOnly = "this address is read-only: send the request to the unix socket, or to an https address as a user that may create nodes/proxy"

// notFromWebPages refuses requests of web pages.
func notFromWebPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := loopback.WebPage(r); why != "" {
			respond.Error(w, http.StatusForbidden, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}
