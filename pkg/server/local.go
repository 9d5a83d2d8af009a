package server

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/internal/loopback"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/rpc"
)

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
