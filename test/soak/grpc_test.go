package soak

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/test/soak/history"
)

// grpcStream reads podconfigd.v1alpha1.PodConfig/Watch.
type grpcStream struct {
	*subscriber

	// list: it begins with a List.
	list bool
}

// connection returns a new connection. The cutter ends it at some time.
func (s *subscriber) connection() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///podconfigd", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.cutter.dial(ctx, "", "") }))
}

// ended returns the error of a call. It returns nil if the connection was cut, the daemon
// does not run, or the daemon is not ready yet.
func ended(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.FailedPrecondition, codes.Internal:
		return nil // Internal: the connection was cut within a message
	}
	return err
}

func (s grpcStream) read(ctx context.Context) error {
	conn, err := s.connection()
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.list && s.since == 0 {
		if err := s.takeList(ctx, conn); err != nil {
			return ended(err)
		}
	}
	request := &v1alpha1.WatchRequest{Instance: s.instance, Selector: s.selector()}
	if s.since != 0 {
		request.Since = new(s.since)
	}
	stream, err := v1alpha1.NewPodConfigClient(conn).Watch(ctx, request)
	if err != nil {
		return ended(err)
	}
	s.connect()
	for {
		response, err := stream.Recv()
		if err != nil {
			return ended(err)
		}
		m, err := messageOf(response)
		if err != nil {
			return err
		}
		s.take(ctx, m)
	}
}

func (s grpcStream) selector() *v1alpha1.PodSelector {
	selection := s.history.Selection
	selector := &v1alpha1.PodSelector{Source: selection.Source, Namespace: selection.Namespace, NoMirrorPods: selection.NoMirrors}
	if selection.Tier != "" {
		selector.LabelSelector = "tier=" + selection.Tier
	}
	if selection.Name != "" {
		selector.FieldSelector = "metadata.name=" + selection.Name
	}
	return selector
}

// takeList takes the answer to a List as the present pods of a stream.
func (s grpcStream) takeList(ctx context.Context, conn *grpc.ClientConn) error {
	response, err := v1alpha1.NewPodConfigClient(conn).List(ctx, &v1alpha1.ListRequest{Selector: s.selector()})
	if err != nil {
		return err
	}
	present := &history.Message{Instance: response.GetInstance(), Op: history.Add}
	for _, data := range response.GetPods() {
		p, err := podOf(data)
		if err != nil {
			return err
		}
		present.Pods = append(present.Pods, p)
	}
	s.connect()
	s.take(ctx, present)
	s.take(ctx, &history.Message{Instance: response.GetInstance(), Revision: response.GetRevision(), Op: history.Bookmark, Synced: true})
	return nil
}

func messageOf(r *v1alpha1.WatchResponse) (*history.Message, error) {
	op := r.GetOp().String()[len("OPERATION_"):]
	m := &history.Message{
		Instance: r.GetInstance(), Revision: r.GetRevision(), Op: op, Source: r.GetSource(),
		Synced: r.GetInitialSyncComplete(), Reset: r.GetReset_(), Continues: r.GetContinues(),
	}
	if r.GetTime() != nil {
		m.Time = r.GetTime().AsTime()
	}
	for _, data := range r.GetPods() {
		p, err := podOf(data)
		if err != nil {
			return nil, err
		}
		m.Pods = append(m.Pods, p)
	}
	return m, nil
}

// podOf decodes a pod in protobuf.
func podOf(data []byte) (history.Pod, error) {
	var p v1.Pod
	if err := p.Unmarshal(data); err != nil {
		return history.Pod{}, fmt.Errorf("a pod: %w", err)
	}
	return recordOf(&p), nil
}
