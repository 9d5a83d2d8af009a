package podsapi

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// track is the statuses of each pod, by name.
type track struct {
	mu   sync.Mutex
	pods map[string][]moment
}

// moment is the time of a status. The status of an event for a pod that is finished is nil: the event has none.
type moment struct {
	at     time.Time
	status *v1.PodStatus
}

func (t *track) note(pod *v1.Pod, status *v1.PodStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods == nil {
		t.pods = make(map[string][]moment)
	}
	t.pods[pod.Name] = append(t.pods[pod.Name], moment{time.Now(), status})
}

// watch is a direct client of the kubelet.
func (n *node) watch(ctx context.Context) {
	for ; ctx.Err() == nil; <-time.After(10 * time.Millisecond) {
		_ = n.watchOnce(ctx) // until the kubelet is there again
	}
}

func (n *node) watchOnce(ctx context.Context) error {
	conn, err := n.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		return err
	}
	initial := true
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if event.GetType() == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
			initial = false
			continue
		}
		var pod v1.Pod
		if err := pod.Unmarshal(event.GetPod()); err != nil {
			return err
		}
		switch {
		case initial:
		case event.GetType() == podsv1alpha1.EventType_DELETED:
			n.theirs.note(&pod, nil)
		default:
			n.theirs.note(&pod, n.compared(&pod.Status))
		}
	}
}

// subscribe is a subscriber of podconfigd.
func (n *node) subscribe(ctx context.Context) {
	for u, err := range n.client.Updates(ctx, client.Options{NoMirrorPods: true}) {
		if err != nil {
			continue // until the socket is there
		}
		for _, pod := range u.Pods {
			n.ours.note(pod, n.compared(&pod.Status))
		}
	}
}

// drain is a subscriber that reads only.
func drain(ctx context.Context, socket string) {
	c := client.New(socket)
	defer c.CloseIdleConnections()
	for _, err := range c.Updates(ctx, client.Options{NoMirrorPods: true}) {
		if err != nil {
			continue // until the socket is there
		}
	}
}

// last returns the last status of a pod before a time; nil if it had none.
func (t *track) last(pod string, before time.Time) (last *v1.PodStatus) {
	for _, m := range t.pods[pod] {
		if m.at.Before(before) {
			last = m.status
		}
	}
	return last
}
