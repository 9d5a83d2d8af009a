package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
)

// pingInterval is the minimum interval between keepalive pings of a gRPC client.
const pingInterval = 10 * time.Second

// grpcWriteBuffer is the maximum number of bytes that are written in one system call. A
// connection has a write buffer only during a write. grpcReadBuffer is small, because requests
// are small.
const (
	grpcWriteBuffer = 64 << 10
	grpcReadBuffer  = 2 << 10
)

// newGRPC returns a server with all gRPC services, or with only the Pods API of the kubelet.
// Its streams end when the context is done. first are called before all others.
func (s *Server) newGRPC(ctx context.Context, podsAPIOnly bool, first ...grpc.StreamServerInterceptor) *grpc.Server {
	_, each := s.limits.sockets.subscribers.limits()
	g := grpc.NewServer(
		grpc.ChainStreamInterceptor(first...),
		grpc.Creds(peerCredentials{}),
		grpc.ForceServerCodecV2(sharedCodec{encoding.GetCodecV2("proto")}),
		grpc.WriteBufferSize(grpcWriteBuffer),
		grpc.ReadBufferSize(grpcReadBuffer),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(maxHeader), // as for a query over HTTP
		grpc.MaxConcurrentStreams(uint32(each)),
		// Without these, gRPC lets a client that sends much have up to 16 MiB unread on each stream.
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.InTapHandle(s.openCall),
		grpc.ConnectionTimeout(headerTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval, PermitWithoutStream: true}),
		grpc.ChainStreamInterceptor(s.limitStream, func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return untilDone(ctx, srv, stream, handle)
		}),
	)
	s.register(g, &podsv1alpha1.Pods_ServiceDesc, &podsAPI{server: s}) //nolint:contextcheck // a call has its own
	if !podsAPIOnly {
		s.register(g, &v1alpha1.PodConfig_ServiceDesc, &podConfigAPI{server: s}) //nolint:contextcheck // as above
	}
	s.register(g, &healthpb.Health_ServiceDesc, s.health) //nolint:contextcheck // as above
	reflection.Register(g)
	return g
}

// openCall counts a call until it ends. It runs before the call has a goroutine: that of a refused call
// would keep its headers until it gets its turn.
func (s *Server) openCall(ctx context.Context, _ *tap.Info) (context.Context, error) {
	release, refusal := s.call(ctx)
	if refusal == nil {
		context.AfterFunc(ctx, release)
		return ctx, nil
	}
	// gRPC keeps a little of each refused call until the connection ends.
	if conn := grpcInfo(ctx).conn; conn != nil && conn.refusedCalls.Add(1) >= maxRefusedCalls {
		_ = conn.Close()
	}
	return ctx, status.Error(codes.ResourceExhausted, refusal.Error())
}

// maxRefusedCalls is how many calls beyond the limit are refused on a connection before it is closed.
const maxRefusedCalls = 250

// serveGRPC serves a listener until the context is done.
func serveGRPC(ctx context.Context, g *grpc.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving gRPC on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	// Stop closes the connections of clients that do not read.
	cut := time.AfterFunc(drainTimeout, g.Stop)
	defer cut.Stop()
	g.GracefulStop()
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %s: %w", l.Addr(), err)
	}
	return context.Cause(ctx)
}
