package rpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// History returns a page of the changes on disk.
func (a *podConfigAPI) History(ctx context.Context, request *v1alpha1.HistoryRequest) (*v1alpha1.HistoryResponse, error) {
	if a.services.History == nil {
		return nil, status.Error(codes.FailedPrecondition, backend.ErrNoHistory.Error())
	}
	query, err := params.History(request)
	if err == nil {
		err = a.services.CheckOwners(false, query.Opts.Owner)
	}
	if err != nil {
		return nil, invalid(err)
	}
	scope, err := a.services.Scope(ctx)
	if err != nil {
		return nil, callError(err)
	}
	page, next, err := backend.HistoryPage(ctx, a.services.Backend, scope, query, historyRecord)
	switch {
	case errors.Is(err, history.ErrCompacted):
		return nil, status.Error(codes.OutOfRange, backend.ErrHistoryCompacted.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &v1alpha1.HistoryResponse{Records: page, ContinueToken: next}, nil
}

// historyRecord converts a record, and returns its size.
func historyRecord(r *stream.HistoryRecord) (*v1alpha1.HistoryRecord, int, error) {
	message := &v1alpha1.HistoryRecord{
		Instance: r.Instance, Revision: r.Revision, UpdateRevision: r.UpdateRevision, Source: r.Source,
		Namespace: r.Namespace, Name: r.Name, Uid: r.UID, Changes: r.Changes, Gap: r.Gap, Replaced: r.Replaced,
		Op: params.Operation(string(r.Op)),
	}
	if r.Time != nil {
		message.Time = timestamppb.New(*r.Time)
	}
	if f := r.File; f != nil {
		message.File = &v1alpha1.HistoryFile{Path: f.Path, Uid: f.UID, Gid: f.GID, Mode: f.Mode}
	}
	for _, version := range []struct {
		pod *v1.Pod
		to  *[]byte
	}{{r.Before, &message.Before}, {r.Pod, &message.Pod}} {
		if version.pod == nil {
			continue
		}
		data, err := version.pod.Marshal()
		if err != nil {
			return nil, 0, err
		}
		*version.to = data
	}
	return message, proto.Size(message), nil
}
