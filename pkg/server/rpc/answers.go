package rpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
)

// listCalls are the calls whose answers can be as large as all pods together.
var listCalls = map[string]bool{
	podsv1alpha1.Pods_ListPods_FullMethodName:        true,
	v1alpha1.PodConfig_List_FullMethodName:           true,
	v1alpha1.PodConfig_Status_FullMethodName:         true,
	v1alpha1.PodConfig_History_FullMethodName:        true,
	v1alpha1.PodConfig_ListContainers_FullMethodName: true,
}

// register registers a service. It turns unary calls into streams, which end after the response is
// written. gRPC itself would wait for the request without a timeout, and would end the call while the
// response waits for the flow control window of the client. A client that never opens its window could
// accumulate responses.
func (s *Services) register(g *grpc.Server, desc *grpc.ServiceDesc, service any) {
	streams := slices.Clone(desc.Streams)
	for _, method := range desc.Methods {
		enter := s.enter("/" + desc.ServiceName + "/" + method.MethodName)
		streams = append(streams, grpc.StreamDesc{StreamName: method.MethodName, Handler: func(service any, stream grpc.ServerStream) error {
			response, err := method.Handler(service, stream.Context(), stream.RecvMsg, enter)
			if err == nil {
				response, err = share(response)
			}
			if err != nil {
				return err
			}
			return s.sendWritten(stream.Context(), stream, response)
		}})
	}
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: desc.ServiceName, HandlerType: desc.HandlerType, Streams: streams, Metadata: desc.Metadata,
	}, service)
}

// enter returns the interceptor of a unary call; nil for none. It runs after the request has arrived, and
// counts lists: a client takes no place before it has sent its request. A client that sees nothing takes
// none.
func (s *Services) enter(method string) grpc.UnaryServerInterceptor {
	if !listCalls[method] {
		return nil
	}
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		ofAll := method == v1alpha1.PodConfig_Status_FullMethodName // everybody gets the status
		if !ofAll {
			if _, err := s.Scope(ctx); err != nil {
				return nil, callError(err)
			}
		}
		release, refusal := s.Limits.List(ctx)
		if refusal != nil {
			return nil, callError(refusal)
		}
		callFrom(ctx).defers(release)
		if ofAll {
			return s.statusMessage(ctx)
		}
		return handle(ctx, request)
	}
}

// sendWritten sends a response, and returns after it is written.
func (s *Services) sendWritten(ctx context.Context, stream grpc.ServerStream, response any) error {
	written := make(chan struct{})
	if err := stream.SendMsg(tracked{response, func() { close(written) }}); err != nil {
		return err
	}
	timeout := time.NewTimer(s.Limits.ListTimeout)
	defer timeout.Stop()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-timeout.C:
		if c := conn.From(ctx); c != nil && !conn.EndWithin(ctx, 0) {
			_ = c.Close() // gRPC can't abort a single response
		}
		return status.Error(codes.DeadlineExceeded, "the client did not read the response in time")
	}
}

// share returns a response with pods as a shared message. While it waits for its client, it has no copy of
// the pods.
func share(response any) (any, error) {
	switch r := response.(type) {
	case *podsv1alpha1.ListPodsResponse:
		return sharedPods(nil, listPods, r.GetPods()), nil
	case *podsv1alpha1.GetPodResponse:
		return sharedPods(nil, getPod, [][]byte{r.GetPod()}), nil
	case *v1alpha1.ListResponse:
		pods := r.GetPods()
		r.Pods = nil
		head, err := proto.Marshal(r)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		return sharedPods(head, responseListPods, pods), nil
	}
	return response, nil
}

// Field numbers of the pods in podsv1alpha1.ListPodsResponse, podsv1alpha1.GetPodResponse
// and v1alpha1.ListResponse.
const (
	listPods         = 1
	getPod           = 1
	responseListPods = 4
)

// statusMessage returns the status as a message. It has the same field names as the JSON object.
func (s *Services) statusMessage(ctx context.Context) (any, error) {
	data, err := s.StatusAnswer(ctx, "protobuf", func(status *stream.Status) ([]byte, error) {
		data, err := backend.StatusJSON(status)
		if err != nil {
			return nil, err
		}
		response := new(v1alpha1.StatusResponse)
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, response); err != nil {
			return nil, err
		}
		return proto.Marshal(response)
	})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return shared{mem.SliceBuffer(data)}, nil
}

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
		if err != nil {
			return waitError(ctx, err)
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
