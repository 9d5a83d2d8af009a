package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// podConfigAPI is podconfigd's own gRPC service.
type podConfigAPI struct {
	v1alpha1.UnimplementedPodConfigServer
	server *Server
}

// Watch tells the stream of updates.
func (a *podConfigAPI) Watch(request *v1alpha1.WatchRequest, stream grpc.ServerStreamingServer[v1alpha1.WatchResponse]) error {
	opts, err := watchOptions(request)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	opts.Client = grpcClient(stream.Context())
	return follow(a.server, stream, view.Stream(a.server.journal, opts), func(f *view.Frame) ([]any, error) {
		return journal.Once(&f.Memo, responseKey{}, func() ([]any, error) { return watchResponse(f) })
	})
}

// List returns the present pods.
func (a *podConfigAPI) List(_ context.Context, request *v1alpha1.ListRequest) (*v1alpha1.ListResponse, error) {
	selector, err := podSelector(request.GetSelector())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	state := a.server.journal.State()
	response := &v1alpha1.ListResponse{
		Instance: state.Instance, Revision: state.Revision, Bookmark: bookmark(state.Bookmark),
	}
	for _, p := range state.Pods {
		if !selector.Matches(p) {
			continue
		}
		data, err := wire.Protobuf(p)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		response.Pods = append(response.Pods, data)
	}
	return response, nil
}

// Status returns the status. Its messages have the fields of the JSON object, under
// the same names.
func (a *podConfigAPI) Status(context.Context, *v1alpha1.StatusRequest) (*v1alpha1.StatusResponse, error) {
	data, err := json.Marshal(a.server.opts.Status())
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	response := new(v1alpha1.StatusResponse)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, response); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return response, nil
}

// resyncCodes has the code of each status that a resync can fail with. All other errors mean
// that the daemon can't answer now.
var resyncCodes = map[metav1.StatusReason]codes.Code{
	metav1.StatusReasonBadRequest:      codes.InvalidArgument,
	metav1.StatusReasonNotFound:        codes.NotFound,
	metav1.StatusReasonTooManyRequests: codes.ResourceExhausted,
}

// Resync sends a SYNC for one pod to its subscribers.
func (a *podConfigAPI) Resync(ctx context.Context, request *v1alpha1.ResyncRequest) (*v1alpha1.ResyncResponse, error) {
	err := a.server.resync(ctx, request.GetNamespace(), request.GetName())
	if err == nil {
		return &v1alpha1.ResyncResponse{}, nil
	}
	code, known := resyncCodes[apierrors.ReasonForError(err)]
	if !known {
		code = codes.Unavailable
	}
	return nil, status.Error(code, err.Error())
}

var modes = map[v1alpha1.Mode]view.Mode{
	v1alpha1.Mode_MODE_UNSPECIFIED:          view.IncrementalMode,
	v1alpha1.Mode_MODE_INCREMENTAL:          view.IncrementalMode,
	v1alpha1.Mode_MODE_SNAPSHOT_AND_UPDATES: view.SnapshotAndUpdatesMode,
	v1alpha1.Mode_MODE_SNAPSHOT:             view.SnapshotMode,
}

// operations has the Go operation of each of protobuf.
var operations = map[v1alpha1.Operation]config.PodOperation{
	v1alpha1.Operation_OPERATION_ADD:          config.ADD,
	v1alpha1.Operation_OPERATION_UPDATE:       config.UPDATE,
	v1alpha1.Operation_OPERATION_REMOVE:       config.REMOVE,
	v1alpha1.Operation_OPERATION_DELETE:       config.DELETE,
	v1alpha1.Operation_OPERATION_RECONCILE:    config.RECONCILE,
	v1alpha1.Operation_OPERATION_SET:          config.SET,
	v1alpha1.Operation_OPERATION_SYNC:         config.SYNC,
	v1alpha1.Operation_OPERATION_PLEG:         config.PLEG,
	v1alpha1.Operation_OPERATION_HOUSEKEEPING: config.HOUSEKEEPING,
	v1alpha1.Operation_OPERATION_BOOKMARK:     config.BOOKMARK,
}

// watchOptions reads a request. Its error names all fields at fault.
func watchOptions(request *v1alpha1.WatchRequest) (view.StreamOptions, error) {
	opts := view.StreamOptions{Instance: request.GetInstance(), Since: request.Since}
	var errs []error
	mode, known := modes[request.GetMode()]
	if !known {
		errs = append(errs, fmt.Errorf("mode: %d is not a mode", request.GetMode()))
	}
	opts.Mode = mode
	if opts.Since != nil && *opts.Since < 0 {
		errs = append(errs, fmt.Errorf("since: %d is not a revision: expected 0 to %d", *opts.Since, math.MaxInt64))
	}
	if opts.Since == nil && opts.Instance != "" {
		errs = append(errs, errors.New("instance: it means nothing without since"))
	}
	if len(request.GetOps()) > 0 {
		opts.Ops = make(journal.Operations)
	}
	for i, op := range request.GetOps() {
		o, known := operations[op]
		if !known {
			errs = append(errs, fmt.Errorf("ops[%d]: %v is not an operation", i, op))
			continue
		}
		opts.Ops[o] = true
	}
	selector, err := podSelector(request.GetSelector())
	opts.Selector = selector
	return opts, errors.Join(append(errs, err)...)
}

func podSelector(s *v1alpha1.PodSelector) (view.Selector, error) {
	selector := view.Selector{Namespace: s.GetNamespace(), NoMirrorPods: s.GetNoMirrorPods()}
	var errs []error
	var err error
	if selector.Source, err = config.ParseSource(s.GetSource()); err != nil {
		errs = append(errs, fmt.Errorf("selector.source: %w", err))
	}
	if selector.Labels, err = labels.Parse(s.GetLabelSelector()); err != nil {
		errs = append(errs, fmt.Errorf("selector.label_selector: %w", err))
	}
	if selector.Fields, err = podfields.Parse(s.GetFieldSelector()); err != nil {
		errs = append(errs, fmt.Errorf("selector.field_selector: %w", err))
	}
	return selector, errors.Join(errs...)
}

func bookmark(b *journal.Bookmark) *v1alpha1.Bookmark {
	message := &v1alpha1.Bookmark{Ready: b.Ready, Sources: make(map[string]*v1alpha1.SourceState, len(b.Sources))}
	for name, s := range b.Sources {
		message.Sources[name] = &v1alpha1.SourceState{Seen: s.Seen}
	}
	return message
}

// responsePods is the field number of v1alpha1.WatchResponse.pods.
const responsePods = 12

// responseKey is what a frame keeps its WatchResponse under.
type responseKey struct{}

// watchResponse returns the frame as a WatchResponse: a []any of one shared.
func watchResponse(f *view.Frame) ([]any, error) {
	head := &v1alpha1.WatchResponse{
		Instance: f.Instance, Revision: f.Revision, Source: f.Source, Message: f.Message,
		InitialSyncComplete: f.InitialSyncComplete, Reset_: f.Reset, Continues: f.Continues,
	}
	for message, op := range operations {
		if op == f.Op {
			head.Op = message
		}
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
