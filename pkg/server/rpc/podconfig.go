package rpc

import (
	"context"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// podConfigAPI is the gRPC service podconfigd.v1alpha1.PodConfig. Its Status is in enter.
type podConfigAPI struct {
	v1alpha1.UnimplementedPodConfigServer
	services *Services
}

// Watch sends the stream of updates.
func (a *podConfigAPI) Watch(request *v1alpha1.WatchRequest, stream grpc.ServerStreamingServer[v1alpha1.WatchResponse]) error {
	opts, err := params.Updates(request)
	if err != nil {
		return invalid(err)
	}
	scope, err := a.services.Scope(stream.Context())
	if err != nil {
		return callError(err)
	}
	p := conn.CallPace(stream.Context())
	opts.Client, opts.Drained = grpcClient(stream.Context()), p.Drained
	return sendFrames(a.services, stream, p, scope.Stream(opts), func(f *view.Frame) ([]any, error) {
		return journal.Once(&f.Memo, responseKey{}, func() ([]any, error) { return watchResponse(f) })
	})
}

// List returns the current pods.
func (a *podConfigAPI) List(ctx context.Context, request *v1alpha1.ListRequest) (*v1alpha1.ListResponse, error) {
	selector, fields, err := params.List(request)
	if err != nil {
		return nil, invalid(err)
	}
	scope, err := a.services.Scope(ctx)
	if err != nil {
		return nil, callError(err)
	}
	state, err := scope.State(selector, fields)
	if err != nil {
		return nil, callError(err)
	}
	response := &v1alpha1.ListResponse{
		Instance: state.Instance, Revision: state.Revision, Bookmark: bookmark(state.Bookmark),
	}
	for _, p := range state.Pods {
		data, err := wire.Protobuf(p)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		response.Pods = append(response.Pods, data)
	}
	return response, nil
}

// Resync sends a SYNC for one pod to its subscribers.
func (a *podConfigAPI) Resync(ctx context.Context, request *v1alpha1.ResyncRequest) (*v1alpha1.ResyncResponse, error) {
	return &v1alpha1.ResyncResponse{}, callError(a.services.ResyncPod(ctx, request.GetNamespace(), request.GetName()))
}

// Release merges the held set of a source.
func (a *podConfigAPI) Release(ctx context.Context, request *v1alpha1.ReleaseRequest) (*v1alpha1.ReleaseResponse, error) {
	var most *int
	if request.Removes != nil {
		if request.GetRemoves() < 0 || request.GetRemoves() > math.MaxInt32 {
			return nil, status.Errorf(codes.InvalidArgument, "removes: expected a number of pods, 0 to %d, got %d", math.MaxInt32, request.GetRemoves())
		}
		most = new(int(request.GetRemoves()))
	}
	return &v1alpha1.ReleaseResponse{}, callError(a.services.ReleaseSource(ctx, request.GetSource(), most))
}
