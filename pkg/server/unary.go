package server

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
)

// listCalls are the calls whose answers may be as large as all pods together.
var listCalls = map[string]bool{
	podsv1alpha1.Pods_ListPods_FullMethodName: true,
	v1alpha1.PodConfig_List_FullMethodName:    true,
	v1alpha1.PodConfig_Status_FullMethodName:  true,
}

// register registers a service of which the calls with one answer are handled by answer.
func (s *Server) register(g *grpc.Server, desc *grpc.ServiceDesc, service any) {
	streams := slices.Clone(desc.Streams)
	for _, method := range desc.Methods {
		list := listCalls["/"+desc.ServiceName+"/"+method.MethodName]
		streams = append(streams, grpc.StreamDesc{StreamName: method.MethodName, Handler: func(service any, stream grpc.ServerStream) error {
			return s.answer(stream, list, func(ctx context.Context) (any, error) {
				return method.Handler(service, ctx, stream.RecvMsg, nil)
			})
		}})
	}
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: desc.ServiceName, HandlerType: desc.HandlerType, Streams: streams, Metadata: desc.Metadata,
	}, service)
}

// answer handles a call that has one answer, until the answer is written. A list has its
// place until then. gRPC itself is done with such a call once the answer waits for the
// client to open its window, and whoever never does piles up answers.
func (s *Server) answer(stream grpc.ServerStream, list bool, handle func(context.Context) (any, error)) error {
	ctx := stream.Context()
	if list {
		release, refusal := s.limits.list(grpcInfo(ctx).id)
		if refusal != nil {
			return status.Error(codes.ResourceExhausted, refusal.Error())
		}
		defer release()
	}
	response, err := handle(ctx)
	if err != nil {
		return err
	}
	if response, err = share(response); err != nil {
		return err
	}
	written := make(chan struct{})
	if err := stream.SendMsg(tracked{response, func() { close(written) }}); err != nil {
		return err
	}
	timeout := time.NewTimer(s.limits.listTimeout)
	defer timeout.Stop()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-timeout.C:
		if conn := grpcInfo(ctx).conn; conn != nil {
			_ = conn.Close() // gRPC has no way to give up a single answer
		}
		return status.Error(codes.DeadlineExceeded, "the client does not read the answer")
	}
}

// share returns lists as shared messages: what waits for a client that does not read is
// then no copy of the pods.
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

// Field numbers of the pods of podsv1alpha1.ListPodsResponse, podsv1alpha1.GetPodResponse
// and v1alpha1.ListResponse.
const (
	listPods         = 1
	getPod           = 1
	responseListPods = 4
)

// shared is a message that is encoded already, and that many streams send.
type shared mem.BufferSlice

// sharedPods returns a message that begins with what is encoded already, and goes on
// with pods as a repeated field.
func sharedPods(head []byte, field protowire.Number, pods [][]byte) shared {
	message := make(shared, 0, 1+2*len(pods))
	for _, pod := range pods {
		head = protowire.AppendTag(head, field, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(pod)))
		message = append(message, mem.SliceBuffer(head), mem.SliceBuffer(pod))
		head = nil
	}
	if len(pods) == 0 {
		message = append(message, mem.SliceBuffer(head))
	}
	return message
}

// tracked is a message, and what to call once it is written. A message that is given up
// may be forgotten without a call.
type tracked struct {
	message any
	written func()
}

// sharedCodec is the codec of protobuf that takes shared and tracked messages.
type sharedCodec struct{ encoding.CodecV2 }

// Marshal returns the message on the wire.
func (c sharedCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case shared:
		return mem.BufferSlice(v), nil
	case tracked:
		data, err := c.Marshal(v.message)
		if err != nil {
			return nil, err
		}
		return append(data, endMark(v.written)), nil
	}
	return c.CodecV2.Marshal(v)
}

// endMark returns an empty buffer to end a message with. gRPC frees a message's buffers
// when it has written the message.
func endMark(freed func()) mem.Buffer {
	nothing := make([]byte, 0, endMarkSize)
	return mem.NewBuffer(&nothing, freedPool{freed})
}

// endMarkSize is what a buffer must be able to hold to be given back to its pool when it
// is freed; see mem.IsBelowBufferPoolingThreshold.
const endMarkSize = 1<<10 + 1

// freedPool is a pool of one buffer that tells when it is given back.
type freedPool struct{ freed func() }

// Get returns a buffer of its own.
func (freedPool) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put tells that the buffer is free.
func (p freedPool) Put(*[]byte) { p.freed() }
