package server

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

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
