package podsapi

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// badKubelet is a server of the Pods API that does what no kubelet does.
type badKubelet struct {
	podsv1alpha1.UnimplementedPodsServer

	watch func(podsv1alpha1.Pods_WatchPodsServer) error
	// list never answers if it is nil.
	list func(context.Context) (*podsv1alpha1.ListPodsResponse, error)
	// get never answers if it is nil.
	get func(uid types.UID) *podsv1alpha1.GetPodResponse
}

func (k *badKubelet) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream podsv1alpha1.Pods_WatchPodsServer) error {
	return k.watch(stream)
}

func (k *badKubelet) ListPods(ctx context.Context, _ *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	if k.list == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return k.list(ctx)
}

func (k *badKubelet) GetPod(ctx context.Context, r *podsv1alpha1.GetPodRequest) (*podsv1alpha1.GetPodResponse, error) {
	if k.get == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return k.get(types.UID(r.GetPodUID())), nil
}

// run serves it, and runs a client of it.
func (k *badKubelet) run(t *testing.T, interval time.Duration, prepare func(*Client)) *Client {
	t.Helper()
	c := New(Options{Path: k.serve(t), Interval: interval})
	prepare(c)
	run(t, c)
	return c
}

// serve serves it, and returns the path of its socket.
func (k *badKubelet) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(testutil.ShortDir(t), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podsv1alpha1.RegisterPodsServer(server, k)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) }) // it ends with Stop
	t.Cleanup(func() { server.Stop(); running.Wait() })
	return path
}

// run runs a client.
func run(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // it ends with the context
	t.Cleanup(func() { cancel(); running.Wait() })
}

// event returns an event of a pod.
func event(t *testing.T, kind podsv1alpha1.EventType, uid types.UID) *podsv1alpha1.WatchPodsEvent {
	t.Helper()
	pod := v1.Pod{Status: v1.PodStatus{Phase: v1.PodPending, StartTime: new(metav1.Unix(1, 0))}}
	pod.Namespace, pod.Name, pod.UID = "default", "a", uid
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &podsv1alpha1.WatchPodsEvent{Type: kind, Pod: data}
}

var synced = &podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}
