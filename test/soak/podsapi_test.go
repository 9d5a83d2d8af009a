package soak

import (
	"context"

	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

// podsAPI follows WatchPods of the kubelet's Pods API. It can't be resumed.
type podsAPI struct{ *subscriber }

func (s podsAPI) read(ctx context.Context) error {
	conn, err := s.connection()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		return ended(err)
	}
	s.connect()
	for {
		event, err := stream.Recv()
		if err != nil {
			return ended(err)
		}
		m := &history.Message{Op: operations[event.GetType().String()]}
		if event.GetType() == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
			m.Op, m.Synced = history.Bookmark, true
		} else {
			p, err := podOf(event.GetPod())
			if err != nil {
				return err
			}
			m.Pods = []history.Pod{p}
		}
		s.take(ctx, m)
	}
}
