package daemon

import (
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestPodsAPISocket runs the kubelet's published client against a socket at a path like
// the kubelet's.
func TestPodsAPISocket(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "a", "i")
	socket := filepath.Join(d.Dir, "pods-api", "pods-api.sock")
	d = e2e.Start(t, d.Dir, "--pods-api-socket", socket)
	d.AwaitFiles(t)
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		event podsv1alpha1.EventType
		name  string
	}{
		{podsv1alpha1.EventType_ADDED, "a-node1"},
		{podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE, ""},
		{podsv1alpha1.EventType_ADDED, "b-node1"},
	} {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var pod v1.Pod
		if err := pod.Unmarshal(event.GetPod()); err != nil {
			t.Fatal(err)
		}
		if event.GetType() != want.event || pod.Name != want.name {
			t.Errorf("got %v %q, want %v %q", event.GetType(), pod.Name, want.event, want.name)
		}
		if want.event == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
			d.Put(t, "b", "i")
		}
	}
}
