package server

import (
	"context"
	"net"

	"github.com/podconfigd/podconfigd/pkg/access"
)

type subjectKey struct{}

// withSubject returns a context of a request of that subject.
func withSubject(ctx context.Context, s access.Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// subjectFrom returns the subject of the request of the context, over HTTP and gRPC. On a unix
// socket, it is the client process.
func subjectFrom(ctx context.Context) access.Subject {
	if s, ok := ctx.Value(subjectKey{}).(access.Subject); ok {
		return s
	}
	conn := connFrom(ctx)
	if conn == nil {
		conn = grpcInfo(ctx).conn
	}
	if conn == nil {
		return access.Subject{}
	}
	return conn.subject()
}

// subject returns the client process. The kernel took its user and groups when it connected.
func (c *admittedConn) subject() access.Subject {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		c.client = new(access.Subject)
		if socket, ok := c.Conn.(*net.UnixConn); ok {
			*c.client = processSubject(socket)
		}
	}
	return *c.client
}
