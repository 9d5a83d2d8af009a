package conn

import (
	"context"
	"net"

	"github.com/podconfigd/podconfigd/pkg/access"
)

type subjectKey struct{}

// WithSubject returns a context of a request of that subject.
func WithSubject(ctx context.Context, s access.Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// SubjectFrom returns the subject of the request of the context, over HTTP and gRPC. On a unix
// socket, it is the client process.
func SubjectFrom(ctx context.Context) access.Subject {
	if s, ok := ctx.Value(subjectKey{}).(access.Subject); ok {
		return s
	}
	if conn := From(ctx); conn != nil {
		return conn.subject()
	}
	return access.Subject{}
}

// subject returns the client process. The kernel took its user and groups when it connected.
func (c *Conn) subject() access.Subject {
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
