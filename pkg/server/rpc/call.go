package rpc

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// withConn adds the connection of a call to its context.
func withConn(ctx context.Context) context.Context {
	if p, ok := peer.FromContext(ctx); ok {
		if c := conn.Of(p.Addr); c != nil {
			return conn.With(ctx, c)
		}
	}
	return ctx
}

// openCall counts a call until it ends. It runs before gRPC starts a goroutine for the call: the goroutine
// of a refused call would keep the headers in memory until it is scheduled.
func (s *Services) openCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx = withConn(ctx)
	if name := conn.Cut(info.FullMethodName); name != info.FullMethodName { // gRPC would quote all of it
		return ctx, status.Errorf(codes.Unimplemented, "unknown method %s", name)
	}
	release, refusal := s.Limits.Call(ctx)
	if refusal == nil {
		context.AfterFunc(ctx, release)
		return ctx, nil
	}
	if c := conn.From(ctx); c != nil {
		c.RefuseCall()
	}
	return ctx, callError(refusal)
}

// call is a call of any service.
type call struct {
	grpc.ServerStream
	services *Services
	info     *grpc.StreamServerInfo
	// ctx ends with the call and with the server.
	ctx context.Context
	// body is the body of a call that net/http has received; nil for other calls.
	body *callBody
	// atEnd has the functions to call when the call has ended.
	atEnd []func()
}

type callKey struct{}

// callFrom returns the call of the context.
func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// finalTimeout is the time in which a client over HTTP/2 must read the end of a call.
const finalTimeout = 10 * time.Second

// intercept returns the interceptor of all calls. The calls end when the context of the server is done.
func (s *Services) intercept(server context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		stop := context.AfterFunc(server, cancel)
		defer stop()
		c := &call{ServerStream: stream, services: s, info: info, body: bodyFrom(ctx)} //nolint:contextcheck // it is that of the stream
		c.ctx = context.WithValue(ctx, callKey{}, c)
		defer c.end()
		err := c.handle(srv, handle)
		conn.EndWithin(ctx, finalTimeout) //nolint:contextcheck // it is that of the stream
		if server.Err() != nil {
			return status.Error(codes.Unavailable, backend.ErrStopping.Error())
		}
		return short(err)
	}
}

// uncompressed is the interceptor that has gRPC send the messages of all calls as they are. gRPC would
// compress them as the client compresses its request, if the program has that compressor. It would then free
// a message before it is written. The limits of answers that are not read would not count what waits.
func uncompressed(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := grpc.SetSendCompressor(stream.Context(), encoding.Identity); err != nil {
		return err
	}
	return handle(srv, stream)
}

// short cuts the message of the error of a call.
func short(err error) error {
	if failure, ok := status.FromError(err); ok && len(failure.Message()) > respond.MaxMessage {
		return status.Error(failure.Code(), printable.Cut(failure.Message(), respond.MaxMessage))
	}
	return err
}

// handle handles the call. A stream of any service counts as a subscriber: from its start if the client
// streams, too, and otherwise after its request has arrived.
func (c *call) handle(srv any, handle grpc.StreamHandler) error {
	if c.info.IsServerStream && c.info.IsClientStream {
		if err := c.subscribe(); err != nil {
			return err
		}
	}
	return handle(srv, c)
}

// defers has f called when the call has ended, and its response is written.
func (c *call) defers(f func()) { c.atEnd = append(c.atEnd, f) }

func (c *call) end() {
	for _, f := range c.atEnd {
		f()
	}
}

// Context returns the context of the call.
func (c *call) Context() context.Context { return c.ctx }

// RecvMsg receives a message. If the client sends only one, it must arrive within a third of ListTimeout.
func (c *call) RecvMsg(m any) error {
	if c.body != nil {
		c.body.take()
	}
	if c.info.IsClientStream {
		return c.ServerStream.RecvMsg(m)
	}
	received := make(chan error, 1)
	go func() { received <- c.ServerStream.RecvMsg(m) }() // it returns when the call ends
	within := c.services.Limits.ListTimeout / 3
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case err := <-received:
		if err != nil || !c.info.IsServerStream {
			return err
		}
		return c.subscribe()
	case <-timeout.C:
		return status.Errorf(codes.DeadlineExceeded, "the client did not send the request within %v", within)
	}
}

// subscribe counts the call as a subscriber until it ends. It refuses a client that sees no pod, except
// for the services of gRPC itself.
func (c *call) subscribe() error {
	if !strings.HasPrefix(c.info.FullMethod, "/grpc.") {
		if _, err := c.services.Scope(c.ctx); err != nil {
			return callError(err)
		}
	}
	release, refusal := c.services.Limits.Subscriber(c.ctx)
	if refusal != nil {
		return callError(refusal)
	}
	c.defers(release)
	return nil
}

// callCodes has the code of each status that a call can fail with. All other errors mean
// that the daemon can't answer now.
var callCodes = map[metav1.StatusReason]codes.Code{
	metav1.StatusReasonBadRequest:      codes.InvalidArgument,
	metav1.StatusReasonNotFound:        codes.NotFound,
	metav1.StatusReasonForbidden:       codes.PermissionDenied,
	metav1.StatusReasonUnauthorized:    codes.Unauthenticated,
	metav1.StatusReasonConflict:        codes.FailedPrecondition,
	metav1.StatusReasonTooManyRequests: codes.ResourceExhausted,
	apistatus.NotImplemented:           codes.Unimplemented,
}

// callError returns the gRPC error for an error that may have a status; nil for none.
func callError(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(Code(err), err.Error())
}

// waitError is callError for what waits until the context is done.
func waitError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return callError(err)
}

// Code returns the code of gRPC for an error that may have a status.
func Code(err error) codes.Code {
	if code, ok := callCodes[apierrors.ReasonForError(err)]; ok {
		return code
	}
	return codes.Unavailable
}

// invalid returns the gRPC error for a request that is invalid.
func invalid(err error) error { return status.Error(codes.InvalidArgument, err.Error()) }
