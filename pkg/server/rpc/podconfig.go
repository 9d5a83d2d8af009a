package rpc

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// podConfigAPI is the gRPC service podconfigd.v1alpha1.PodConfig. Its Status is in enter.
type podConfigAPI struct {
	v1alpha1.UnimplementedPodConfigServer
	services *Services
}

// Watch sends the stream of updates.
func (a *podConfigAPI) Watch(request *v1alpha1.WatchRequest, calls grpc.ServerStreamingServer[v1alpha1.WatchResponse]) error {
	opts, err := params.Updates(request)
	if err == nil {
		err = a.services.CheckOwners(opts.Owners, opts.Selector.Owner)
	}
	if err != nil {
		return invalid(err)
	}
	scope, err := a.services.Scope(calls.Context())
	if err != nil {
		return callError(err)
	}
	opts.Client = grpcClient(calls.Context())
	return sendFrames(a.services, calls, scope.Stream(opts), func(f *view.Frame) ([]any, error) {
		return journal.Once(&f.Memo, responseKey{}, func() ([]any, error) { return watchResponse(f) })
	})
}

// List returns the current pods.
func (a *podConfigAPI) List(ctx context.Context, request *v1alpha1.ListRequest) (*v1alpha1.ListResponse, error) {
	selector, fields, err := params.List(request)
	if err == nil {
		err = a.services.CheckOwners(false, selector.Owner)
	}
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
	pod, err := params.Resync(request)
	if err != nil {
		return nil, invalid(err)
	}
	return &v1alpha1.ResyncResponse{}, callError(a.services.ResyncPod(ctx, pod))
}

// Release merges the held set of a source.
func (a *podConfigAPI) Release(ctx context.Context, request *v1alpha1.ReleaseRequest) (*v1alpha1.ReleaseResponse, error) {
	query, err := params.Release(request)
	if err != nil {
		return nil, invalid(err)
	}
	return &v1alpha1.ReleaseResponse{}, callError(a.services.ReleaseSource(ctx, query))
}

func bookmark(b *journal.Bookmark) *v1alpha1.Bookmark {
	message := &v1alpha1.Bookmark{Ready: b.Ready, Sources: make(map[string]*v1alpha1.SourceState, len(b.Sources))}
	for name, s := range b.Sources {
		message.Sources[name] = &v1alpha1.SourceState{Seen: s.Seen, Restored: s.Restored}
	}
	return message
}

// responsePods is the field number of v1alpha1.WatchResponse.pods.
const responsePods = 12

// responseKey is the key of the WatchResponse in the memo of a frame.
type responseKey struct{}

// watchResponse encodes the frame as a WatchResponse: one message of type shared.
func watchResponse(f *view.Frame) ([]any, error) {
	head := &v1alpha1.WatchResponse{
		Instance: f.Instance, Revision: f.Revision, Source: f.Source, Message: f.Message,
		InitialSyncComplete: f.InitialSyncComplete, Reset_: f.Reset, Restored: f.Restored, Continues: f.Continues,
		Op: params.Operation(f.Op.String()),
	}
	if !f.Time.IsZero() {
		head.Time = timestamppb.New(f.Time)
	}
	if f.Bookmark != nil {
		head.Bookmark = bookmark(f.Bookmark)
	}
	if e := f.Event; e != nil {
		head.Event = &v1alpha1.Event{
			Type: e.Type, PodUid: e.PodUID, ContainerId: e.ContainerID, Container: e.Container, ExitCode: e.ExitCode,
		}
	}
	for uid, owners := range f.OwnersOfPods() {
		if head.Owners == nil {
			head.Owners = make(map[string]*v1alpha1.Owners)
		}
		head.Owners[string(uid)] = &v1alpha1.Owners{Owners: ownersOf(owners)}
	}
	head.Namespaces, head.Node = metadataOf(f.Namespaces, f.Node)
	data, err := proto.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("encoding update %d: %w", f.Revision, err)
	}
	pods := make([][]byte, len(f.Pods))
	for i, p := range f.Pods {
		if pods[i], err = wire.Protobuf(p); err != nil {
			return nil, err
		}
	}
	return []any{sharedPods(data, responsePods, pods)}, nil
}

// metadataOf converts the labels and annotations of namespaces and the node.
func metadataOf(namespaces map[string]*stream.Metadata, node *stream.Metadata) (map[string]*v1alpha1.Metadata, *v1alpha1.Metadata) {
	message := func(m *stream.Metadata) *v1alpha1.Metadata {
		return &v1alpha1.Metadata{Labels: m.Labels, Annotations: valid(m.Annotations), Removed: m.Removed}
	}
	messages := make(map[string]*v1alpha1.Metadata, len(namespaces))
	for name, m := range namespaces {
		messages[name] = message(m)
	}
	if node == nil {
		return messages, nil
	}
	return messages, message(node)
}

// valid returns annotations as protobuf can have them. Those of the apiserver can have values that are not UTF-8.
func valid(annotations map[string]string) map[string]string {
	all := make(map[string]string, len(annotations))
	for key, value := range annotations {
		all[key] = strings.ToValidUTF8(value, "\uFFFD")
	}
	return all
}
