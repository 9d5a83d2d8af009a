// Package rpc serves gRPC: podconfigd.v1alpha1.PodConfig, the Pods API of the kubelet (v1alpha1.Pods),
// grpc.health.v1 and reflection.
package rpc

import (
	"context"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
)

// pingInterval is the minimum interval between keepalive pings of a gRPC client.
const pingInterval = 10 * time.Second

// grpcWriteBuffer is the maximum number of bytes that are written in one system call. A client that does not read
// holds it, and 64 KiB that gRPC takes for a stream before they are written. grpcReadBuffer is small, because requests
// are small.
const (
	grpcWriteBuffer = 16 << 10
	grpcReadBuffer  = 2 << 10
)

// Services are the services of gRPC.
type Services struct {
	*backend.Backend
	health *health.Server
}

// New returns services of the backend.
func New(b *backend.Backend) *Services { return &Services{Backend: b, health: health.NewServer()} }

// NewServer returns a server with all gRPC services, or with only the Pods API of the kubelet. Its streams
// end when the context is done. The interceptors in first run before all others.
func (s *Services) NewServer(ctx context.Context, podsAPIOnly bool, first ...grpc.StreamServerInterceptor) *grpc.Server {
	g := grpc.NewServer(
		grpc.ChainStreamInterceptor(uncompressed),
		grpc.ChainStreamInterceptor(first...),
		grpc.ForceServerCodecV2(sharedCodec{encoding.GetCodecV2("proto")}),
		grpc.WriteBufferSize(grpcWriteBuffer),
		grpc.ReadBufferSize(grpcReadBuffer),
		grpc.MaxHeaderListSize(conn.MaxHeader),
		grpc.MaxRecvMsgSize(conn.MaxHeader), // as for a query over HTTP
		grpc.MaxConcurrentStreams(uint32(s.Limits.MaxStreams())),
		// Without these, gRPC buffers up to 16 MiB of each stream that it has not read.
		grpc.StaticStreamWindowSize(conn.StreamWindow),
		grpc.StaticConnWindowSize(conn.ConnectionWindow),
		grpc.InTapHandle(s.openCall),
		grpc.ConnectionTimeout(conn.HeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: conn.IdleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval, PermitWithoutStream: true}),
		grpc.ChainStreamInterceptor(s.intercept(ctx)),
	)
	s.register(g, &podsv1alpha1.Pods_ServiceDesc, &podsAPI{services: s}) //nolint:contextcheck // a call has its own
	if !podsAPIOnly {
		s.register(g, &v1alpha1.PodConfig_ServiceDesc, &podConfigAPI{services: s}) //nolint:contextcheck // as above
	}
	s.register(g, &healthpb.Health_ServiceDesc, s.health) //nolint:contextcheck // as above
	reflection.Register(g)
	return g
}

// Serve serves a listener until the context is done.
func Serve(ctx context.Context, g *grpc.Server, l net.Listener) error {
	return conn.Serve(ctx, l, g.Serve, grpc.ErrServerStopped, func(drain context.Context) {
		// Stop closes the connections of clients that do not read.
		stop := context.AfterFunc(drain, g.Stop)
		defer stop()
		g.GracefulStop()
	})
}

// Refuser serves connections beyond the limit. It serves health, and refuses all other calls.
func (s *Services) Refuser() *grpc.Server {
	g := grpc.NewServer(
		grpc.ChainStreamInterceptor(uncompressed),
		grpc.ForceServerCodecV2(sharedCodec{encoding.GetCodecV2("proto")}),
		grpc.ConnectionTimeout(conn.HeaderTimeout),
		grpc.MaxHeaderListSize(conn.MaxHeader),
		grpc.MaxRecvMsgSize(conn.MaxHeader),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: conn.RefusalTime, MaxConnectionAgeGrace: conn.RefusalTime}),
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) { return withConn(ctx), nil }),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			return callError(conn.From(stream.Context()).Refusal())
		}),
	)
	s.register(g, &healthpb.Health_ServiceDesc, s.health)
	return g
}

// RefuseWrites refuses the calls that are not known to read only. why is the reason.
func RefuseWrites(why string) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if auth.AttributesOf(http.MethodPost, info.FullMethod).Verb != "get" {
			return status.Error(codes.PermissionDenied, why)
		}
		return handle(srv, stream)
	}
}

// healthPeriod is the interval at which the state of grpc.health.v1 is updated.
const healthPeriod = time.Second

// UpdateHealth updates the state of grpc.health.v1, for the server and for each service, from
// the checks of /readyz until the context is done. unready returns the first failure.
func (s *Services) UpdateHealth(ctx context.Context, unready func() error) error {
	for {
		state := healthpb.HealthCheckResponse_SERVING
		if unready() != nil {
			state = healthpb.HealthCheckResponse_NOT_SERVING
		}
		for _, service := range []string{"", v1alpha1.PodConfig_ServiceDesc.ServiceName, podsv1alpha1.Pods_ServiceDesc.ServiceName} {
			s.health.SetServingStatus(service, state)
		}
		if err := await.For(ctx, healthPeriod); err != nil {
			s.health.Shutdown()
			return err
		}
	}
}
