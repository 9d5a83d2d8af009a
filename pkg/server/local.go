package server

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/loopback"
	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// RunReadOnly serves a listener on a loopback address without authentication, as the read-only
// port of the kubelet. It serves everything but the requests that change something. It refuses
// requests that a web page makes from a browser.
func (s *Server) RunReadOnly(ctx context.Context, l net.Listener) error {
	return s.run(ctx, l, notFromWebPages(s.refusePosts(s.reads())), func(ctx context.Context) *grpc.Server {
		return s.newGRPC(ctx, false, refuseWrites)
	})
}

// errReadOnly is the reason why a request that changes something is refused.
const errReadOnly = "this address is read-only: send the request to the unix socket, or to an https address as a user that may create nodes/proxy"

// refusePosts refuses the paths that take a POST, and passes all other requests on.
func (s *Server) refusePosts(next http.Handler) http.Handler {
	posts := s.posts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts[r.URL.Path] != nil {
			respond.Error(w, http.StatusForbidden, metav1.StatusReasonForbidden, errReadOnly)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseWrites refuses the calls that are not known to read only.
func refuseWrites(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if auth.AttributesOf(http.MethodPost, info.FullMethod).Verb != "get" {
		return status.Error(codes.PermissionDenied, errReadOnly)
	}
	return handle(srv, stream)
}

// notFromWebPages refuses requests of web pages.
func notFromWebPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := loopback.WebPage(r); why != "" {
			respond.Error(w, http.StatusForbidden, metav1.StatusReasonForbidden, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}
