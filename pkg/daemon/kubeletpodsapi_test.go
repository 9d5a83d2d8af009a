package daemon_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// oneStatus is a kubelet that gives one pod.
type oneStatus struct {
	podsv1alpha1.UnimplementedPodsServer

	data []byte
}

func (k *oneStatus) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream podsv1alpha1.Pods_WatchPodsServer) error {
	_ = stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_ADDED, Pod: k.data})
	_ = stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE})
	<-stream.Context().Done()
	return nil
}

// serveStatus serves the Pods API of a kubelet that gives the pod a status, until stop.
func serveStatus(t *testing.T, path string, pod *v1.Pod) (stop func()) {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Status = v1.PodStatus{
		Phase: v1.PodRunning, StartTime: new(metav1.Unix(1, 0)), HostIP: "198.51.100.1",
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull"}},
		}},
	}
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podsv1alpha1.RegisterPodsServer(server, &oneStatus{data: data})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }() // it ends with Stop
	stop = func() { server.Stop(); <-done }
	t.Cleanup(stop)
	return stop
}

// The status of the kubelet comes and goes with reloads of kubeletPodsAPI, also after a restart without the kubelet.
func TestReloadOfTheKubeletsPodsAPI(t *testing.T) {
	r := configured(t)
	r.config.StateDir = filepath.Join(r.dir, "state")
	path := filepath.Join(testutil.ShortDir(t), "k")
	none := r.config
	none.KubeletPodsAPI = new("none")
	with := r.config
	with.KubeletPodsAPI = new(path)
	current := func() *v1.Pod {
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
		defer cancel()
		for u, err := range client.New(*r.config.Socket).Updates(ctx, client.Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(u.Pods) == 1 {
				return u.Pods[0]
			}
		}
		t.Fatal("no pod")
		return nil
	}
	phase := func(want v1.PodPhase) {
		t.Helper()
		testutil.Until(t, "the phase "+string(want), func() bool { return current().Status.Phase == want })
	}
	r.config = none
	r.run()
	own := current().Status.Phase
	stop := serveStatus(t, path, current())
	if _, err := r.Reload(t.Context(), &with); err != nil {
		t.Fatal(err)
	}
	phase(v1.PodRunning)
	if _, err := r.Reload(t.Context(), &none); err != nil {
		t.Fatal(err)
	}
	phase(own)
	if _, err := r.Reload(t.Context(), &with); err != nil {
		t.Fatal(err)
	}
	phase(v1.PodRunning)
	_ = r.stop()
	stop()
	r.config = with
	r.run()
	phase(v1.PodRunning)
	if _, err := r.Reload(t.Context(), &none); err != nil {
		t.Fatal(err)
	}
	phase(own)
}

// A kubelet has no further sources: it need not have their pods.
func TestFurtherSourcesBesideAKubelet(t *testing.T) {
	r := configured(t, "a")
	path := filepath.Join(testutil.ShortDir(t), "k")
	other := new(v1.Pod)
	other.Namespace, other.Name, other.UID = "default", "other", "other"
	serveStatus(t, path, other)
	r.config.KubeletPodsAPI = new(path)
	r.run()
	testutil.Eventually(t, func() error {
		status, err := client.New(*r.config.Socket).Status(t.Context())
		if err != nil {
			return err
		}
		if k := status.Kubelet.PodsAPI; k == nil || !slices.Equal(k.UnknownToKubelet, []string{"default/m1-n"}) {
			return fmt.Errorf("%+v", k)
		}
		return nil
	})
}
