package server

import (
	"context"

	"github.com/podconfigd/podconfigd/pkg/access"
)

type subjectKey struct{}

// withSubject returns a context of a request of that subject.
func withSubject(ctx context.Context, s access.Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// subjectFrom returns the subject of the request of the context, over HTTP and gRPC.
func subjectFrom(ctx context.Context) access.Subject {
	s, _ := ctx.Value(subjectKey{}).(access.Subject)
	return s
}
