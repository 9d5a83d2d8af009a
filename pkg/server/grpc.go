package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// pingInterval is how often a gRPC client may ask whether the connection stands.
const pingInterval = 10 * time.Second

// grpcWriteBuffer is how many bytes go out in one system call where as many are there.
// grpcReadBuffer is for requests, which are small. A connection has both for as long as it
// stands or is written to.
const (
	grpcWriteBuffer = 8 << 10
	grpcReadBuffer  = 2 << 10
)

// newGRPC returns a server of all gRPC services, or of the kubelet's Pods API alone.
// Its streams end when the context is done.
func (s *Server) newGRPC(ctx context.Context, podsAPIOnly bool) *grpc.Server {
	g := grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.ForceServerCodecV2(sharedCodec{encoding.GetCodecV2("proto")}),
		grpc.WriteBufferSize(grpcWriteBuffer),
		grpc.ReadBufferSize(grpcReadBuffer),
		grpc.SharedWriteBuffer(true), // who is told nothing needs no buffer
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(maxHeader), // a request has no more to say than a query
		grpc.MaxConcurrentStreams(uint32(s.limits.subscribers.each)),
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
	healthpb.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	return g
}

// serveGRPC serves a listener until the context is done.
func serveGRPC(ctx context.Context, g *grpc.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving gRPC on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	// Those who do not read are cut off.
	cut := time.AfterFunc(drainTimeout, g.Stop)
	defer cut.Stop()
	g.GracefulStop()
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %s: %w", l.Addr(), err)
	}
	return context.Cause(ctx)
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the other context.
func (s contextStream) Context() context.Context { return s.ctx }

// limitStream counts a stream, of whichever service, as a subscriber.
func (s *Server) limitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if !info.IsServerStream {
		return handle(srv, stream)
	}
	release, refusal := s.limits.subscriber(grpcInfo(stream.Context()).id)
	if refusal != nil {
		return status.Error(codes.ResourceExhausted, refusal.Error())
	}
	defer release()
	return handle(srv, stream)
}

// untilDone handles a stream, but no longer than until the server's context is done.
func untilDone(server context.Context, srv any, stream grpc.ServerStream, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(server, cancel)
	defer stop()
	err := handle(srv, contextStream{stream, ctx})
	if server.Err() != nil {
		return status.Error(codes.Unavailable, "podconfigd is stopping")
	}
	return err
}

// follow sends a cursor's frames until the client or the server goes away, and closes the
// cursor. encode returns the messages of a frame.
func follow(s *Server, stream grpc.ServerStream, cursor *view.Cursor, encode func(*view.Frame) ([]any, error)) error {
	defer cursor.Close()
	ctx := stream.Context()
	var messages []any
	for {
		frames, err := cursor.Next(ctx)
		if err != nil {
			return status.FromContextError(err).Err()
		}
		messages = messages[:0]
		for _, f := range frames {
			encoded, err := encode(f)
			if err != nil {
				return status.Error(codes.Internal, err.Error())
			}
			messages = append(messages, encoded...)
		}
		n := len(frames)
		clear(frames) // while it waits for the client, it holds what is encoded only
		for i, message := range messages {
			messages[i] = nil
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
		s.metrics.frames.Add(float64(n))
	}
}

// grpcClient returns who makes the call of the context.
func grpcClient(ctx context.Context) journal.Client { return grpcInfo(ctx).id.client(userAgent(ctx)) }

func userAgent(ctx context.Context) string {
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		return agent[0]
	}
	return ""
}

// peerCredentials is the security of a unix socket: the kernel says who is at its
// other end.
type peerCredentials struct{}

// peerInfo is what peerCredentials finds out.
type peerInfo struct {
	id peerID
	// conn is the connection; nil where it is not this package's.
	conn *admittedConn
}

// AuthType names the way.
func (peerInfo) AuthType() string { return "unix" }

// ServerHandshake asks the kernel.
func (peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	admitted, _ := conn.(*admittedConn)
	return conn, peerInfo{id: peerOf(conn), conn: admitted}, nil
}

// ClientHandshake is not for clients.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info returns what the handshake is about.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

// Clone returns the same.
func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing: there is no name.
func (peerCredentials) OverrideServerName(string) error { return nil }

func grpcInfo(ctx context.Context) peerInfo {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(peerInfo); ok {
			return info
		}
	}
	return peerInfo{}
}

// healthPeriod is how often the state that grpc.health.v1 tells is brought up to date.
const healthPeriod = time.Second

// tellHealth has grpc.health.v1 say, of the server and of each service, what /readyz
// does, until the context is done.
func (s *Server) tellHealth(ctx context.Context) error {
	ticker := time.NewTicker(healthPeriod)
	defer ticker.Stop()
	for {
		state := healthpb.HealthCheckResponse_SERVING
		if s.unready() != nil {
			state = healthpb.HealthCheckResponse_NOT_SERVING
		}
		for _, service := range []string{"", v1alpha1.PodConfig_ServiceDesc.ServiceName, podsv1alpha1.Pods_ServiceDesc.ServiceName} {
			s.health.SetServingStatus(service, state)
		}
		select {
		case <-ctx.Done():
			s.health.Shutdown()
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
