package rpc

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

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
