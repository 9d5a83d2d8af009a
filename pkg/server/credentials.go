package server

import (
	"context"
	"errors"
	"net"
	"unicode/utf8"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// grpcClient returns the client of a gRPC call.
func grpcClient(ctx context.Context) journal.Client {
	return clientOf(ctx, grpcInfo(ctx), userAgent(ctx))
}

// clientOf returns the client of a request or a call.
func clientOf(ctx context.Context, info peerInfo, userAgent string) journal.Client {
	client := journal.Client{UserAgent: cut(userAgent)}
	switch {
	case info.id.network.IsValid() && info.conn != nil:
		client.Address, client.User = info.conn.RemoteAddr().String(), cut(subjectFrom(ctx).User)
	case info.id.known:
		client.PID, client.UID = info.id.pid, &info.id.uid
	}
	return client
}

// maxText is how many bytes of a text that a client chose are kept and shown.
const maxText = 256

// cut returns the text without what is beyond maxText. It keeps no longer text in memory.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func userAgent(ctx context.Context) string {
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		return agent[0]
	}
	return ""
}

// peerCredentials are transport credentials for a unix socket. The kernel identifies the client
// process.
type peerCredentials struct{}

// peerInfo is the result of the handshake of peerCredentials.
type peerInfo struct {
	id peerID
	// conn is the connection; nil if it is not from a splitter.
	conn *admittedConn
}

// AuthType returns the name of the protocol.
func (peerInfo) AuthType() string { return "unix" }

// ServerHandshake requests the client process from the kernel.
func (peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	admitted, _ := conn.(*admittedConn)
	return conn, peerInfo{id: peerOf(conn), conn: admitted}, nil
}

// ClientHandshake returns an error.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("peer credentials are only for servers")
}

// Info returns the name of the protocol.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

// Clone returns the same credentials.
func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing, because there is no server name.
func (peerCredentials) OverrideServerName(string) error { return nil }

func grpcInfo(ctx context.Context) peerInfo {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(peerInfo); ok {
			return info
		}
	}
	return peerInfo{id: peerFrom(ctx), conn: connFrom(ctx)} // behind a server of net/http
}
