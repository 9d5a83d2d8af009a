package rpc

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
)

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the other context.
func (s contextStream) Context() context.Context { return s.ctx }

// limitStream counts a stream of any service as a subscriber. A stream with one request takes its
// place after its request has arrived.
func (s *Services) limitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if !info.IsServerStream {
		return handle(srv, stream)
	}
	limited := &limitedStream{ServerStream: stream, services: s, ruled: !strings.HasPrefix(info.FullMethod, "/grpc.")}
	defer func() { limited.taken.all() }()
	if info.IsClientStream {
		if err := limited.enter(); err != nil {
			return err
		}
		return handle(srv, stream)
	}
	return handle(srv, limited)
}

// limitedStream is a stream with one request.
type limitedStream struct {
	grpc.ServerStream
	services *Services
	// ruled is true if the access rules apply.
	ruled bool
	taken releases
}

// RecvMsg receives the request, and takes the place of a subscriber.
func (s *limitedStream) RecvMsg(m any) error {
	if err := s.services.receive(s.ServerStream, m); err != nil {
		return err
	}
	return s.enter()
}

// enter takes the place of a subscriber. A client that sees nothing takes none, and gets an error.
func (s *limitedStream) enter() error {
	ctx := s.Context()
	if s.ruled {
		if _, err := s.services.Scope(ctx); err != nil {
			return callError(err)
		}
	}
	release, refusal := s.services.Limits.Subscriber(ctx)
	if refusal != nil {
		return status.Error(codes.ResourceExhausted, refusal.Error())
	}
	s.taken = append(s.taken, release)
	return nil
}

// finalTimeout is the time in which a client over HTTP/2 must read the end of a call.
const finalTimeout = 10 * time.Second

// untilDone handles a stream until the context of the server is done.
func untilDone(server context.Context, srv any, stream grpc.ServerStream, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(server, cancel)
	defer stop()
	err := handle(srv, contextStream{stream, ctx})
	conn.EndWithin(ctx, finalTimeout) //nolint:contextcheck // it is that of the stream
	if server.Err() != nil {
		return status.Error(codes.Unavailable, backend.ErrStopping.Error())
	}
	return err
}

// sendFrames sends the frames of a cursor until the client disconnects or the server stops. It
// closes the cursor. encode returns the messages of a frame.
func sendFrames(s *Services, stream grpc.ServerStream, p *conn.Pace, cursor *view.Cursor, encode func(*view.Frame) ([]any, error)) error {
	defer cursor.Close()
	ctx := stream.Context()
	// A program that has this package can have compressors. The pace counts what it hands to gRPC.
	if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil {
		return err
	}
	var messages []any
	for {
		frames, err := cursor.Next(ctx)
		if errors.Is(err, access.ErrNames) {
			return callError(err)
		}
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
		clear(frames) // a client that does not read holds only the encoded messages
		for i, message := range messages {
			messages[i] = nil
			if m, ok := message.(shared); ok {
				p.HandOver(mem.BufferSlice(m).Len())
			}
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
		s.Frames.Add(float64(n))
	}
}
