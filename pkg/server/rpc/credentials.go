package rpc

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// grpcClient returns the client of a gRPC call.
func grpcClient(ctx context.Context) journal.Client {
	return conn.ClientOf(ctx, userAgent(ctx))
}

func userAgent(ctx context.Context) string {
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		return agent[0]
	}
	return ""
}

// connCredentials are transport credentials for connections of a splitter, which know their client.
type connCredentials struct{}

// callConn is the result of the handshake of connCredentials.
type callConn struct{ net.Conn }

// AuthType returns the name of the protocol.
func (callConn) AuthType() string { return "unix" }

// withCallConn adds the connection of a call to its context.
func withCallConn(ctx context.Context) context.Context {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(callConn); ok {
			return conn.With(ctx, c.Conn)
		}
	}
	return ctx
}

// ServerHandshake passes the connection on to withCallConn.
func (connCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, callConn{conn}, nil
}

// ClientHandshake returns an error.
func (connCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are only for servers")
}

// Info returns the name of the protocol.
func (connCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

// Clone returns the same credentials.
func (c connCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing, because there is no server name.
func (connCredentials) OverrideServerName(string) error { return nil }
