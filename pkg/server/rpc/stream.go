package rpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
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

// sendFrames sends the frames of a cursor until the client disconnects or the server stops. It
// closes the cursor. encode returns the messages of a frame.
func sendFrames(s *Services, stream grpc.ServerStream, cursor *view.Cursor, encode func(*view.Frame) ([]any, error)) error {
	defer cursor.Close()
	ctx := stream.Context()
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
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
		s.Frames.Add(float64(n))
	}
}
