package server

import (
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/kubeapi"
)

// refuser serves connections beyond the limit. It serves what handle adds, which is health,
// because probes must not fail if there are many clients. It refuses all other requests.
func (s *Server) refuser(handle func(kubeapi.Router)) *http.Server {
	mux := http.NewServeMux()
	handle(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond.Status(w, respond.TooMany(connFrom(r.Context()).refusal))
	})
	server := &http.Server{Handler: mux, ReadTimeout: refusalTime, WriteTimeout: refusalTime}
	server.SetKeepAlivesEnabled(false)
	return server
}

// refuseAll adds nothing to a refuser. Its clients would have to authenticate for health.
func refuseAll(kubeapi.Router) {}

// grpcRefuser is the refuser for gRPC.
func (s *Server) grpcRefuser() *grpc.Server {
	g := grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.ConnectionTimeout(refusalTime),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(maxHeader),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: refusalTime, MaxConnectionAgeGrace: refusalTime}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			return status.Error(codes.ResourceExhausted, grpcInfo(stream.Context()).conn.refusal.Error())
		}),
	)
	healthpb.RegisterHealthServer(g, s.health)
	return g
}
