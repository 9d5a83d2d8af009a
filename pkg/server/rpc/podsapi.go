package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// podsAPI is the Pods API of the kubelet. As in the kubelet, it has no mirror pods. Unlike the
// kubelet, it does not drop a slow subscriber, and a DELETED event has the whole pod.
//
// kubelet: pkg/kubelet/apis/pods/server.go; KEP-4188.
type podsAPI struct {
	podsv1alpha1.UnimplementedPodsServer
	services *Services
}

var podsSelector = view.Selector{NoMirrorPods: true}

// scope returns what the client sees. It returns an error if that is nothing, or unless every
// source has been seen or restored. Metadata of the answer name podconfigd, and the sources that are
// only restored.
func (a *podsAPI) scope(ctx context.Context) (*view.Scope, error) {
	if err := grpc.SetHeader(ctx, metadata.Pairs(v1alpha1.PodsAPIHeader, "true")); err != nil {
		return nil, err
	}
	scope, err := a.services.Scope(ctx)
	if err != nil {
		return nil, callError(err)
	}
	if err := a.services.Gate.CheckKnown(); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "the pods are not known yet: %v", err)
	}
	if restored := a.services.Gate.Restored(); len(restored) > 0 {
		return scope, grpc.SetHeader(ctx, metadata.Pairs(v1alpha1.RestoredHeader, strings.Join(restored, ",")))
	}
	return scope, nil
}

// ListPods returns the current pods, ordered by UID.
func (a *podsAPI) ListPods(ctx context.Context, _ *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	scope, err := a.scope(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := scope.ByUID(podsSelector)
	if err != nil { // only if the journal falls behind in between, or the rules change
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	response := &podsv1alpha1.ListPodsResponse{Pods: make([][]byte, len(pods))}
	for i, p := range pods {
		data, err := wire.Protobuf(p)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		response.Pods[i] = data
	}
	return response, nil
}

// GetPod returns the current pod with that UID.
func (a *podsAPI) GetPod(ctx context.Context, request *podsv1alpha1.GetPodRequest) (*podsv1alpha1.GetPodResponse, error) {
	scope, err := a.scope(ctx)
	if err != nil {
		return nil, err
	}
	pod := scope.WithUID(types.UID(request.GetPodUID()), podsSelector)
	if pod == nil {
		if err := scope.Err(); err != nil {
			return nil, callError(err)
		}
		return nil, status.Errorf(codes.NotFound, "pod with UID %q not found", request.GetPodUID())
	}
	data, err := wire.Protobuf(pod)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &podsv1alpha1.GetPodResponse{Pod: data}, nil
}

// WatchPods sends the current pods ordered by UID, INITIAL_SYNC_COMPLETE, and then each change.
func (a *podsAPI) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	scope, err := a.scope(stream.Context())
	if err != nil {
		return err
	}
	opts := view.Options{Selector: podsSelector, Client: grpcClient(stream.Context())}
	synced := false
	return sendFrames(a.services, stream, scope.UIDs(opts), func(f *view.Frame) ([]any, error) {
		if f.InitialSyncComplete && !synced {
			synced = true
			return []any{&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}}, nil
		}
		return journal.Once(&f.Memo, eventsKey{}, func() ([]any, error) { return podEvents(f) })
	})
}

// Field numbers of podsv1alpha1.WatchPodsEvent.
const (
	eventType = 1
	eventPod  = 2
)

// eventsKey is the key of the events in the memo of a frame.
type eventsKey struct{}

// podEvents encodes a WatchPodsEvent for each pod of the frame: messages of type shared.
func podEvents(f *view.Frame) ([]any, error) {
	kind := podsv1alpha1.EventType_MODIFIED
	switch f.Op {
	case config.ADD:
		kind = podsv1alpha1.EventType_ADDED
	case config.REMOVE:
		kind = podsv1alpha1.EventType_DELETED
	case config.UPDATE, config.DELETE, config.RECONCILE:
	default:
		return nil, nil
	}
	events := make([]any, len(f.Pods))
	for i, p := range f.Pods {
		pod, err := wire.Protobuf(p)
		if err != nil {
			return nil, err
		}
		head := protowire.AppendTag(nil, eventType, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(kind))
		head = protowire.AppendTag(head, eventPod, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(pod)))
		events[i] = shared{mem.SliceBuffer(head), mem.SliceBuffer(pod)}
	}
	return events, nil
}
