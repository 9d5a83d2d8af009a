package devices

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// server is a kubelet that has only List.
type server struct {
	podresourcesv1.UnimplementedPodResourcesListerServer

	list []*podresourcesv1.PodResources
}

func (s *server) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return &podresourcesv1.ListPodResourcesResponse{PodResources: s.list}, nil
}

// serve serves a socket, until stop is called.
func (s *server) serve(t *testing.T, path string) (stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(g, s)
	var running sync.WaitGroup
	running.Go(func() { _ = g.Serve(l) }) // it ends with Stop
	return func() { g.Stop(); running.Wait() }
}

// Each kubelet that serves the socket is another one, and nothing is left of the one before.
func TestSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(testutil.ShortDir(t), "s")
	l := New(Options{Path: path, Journal: journal.New(journal.Options{})})
	if _, _, err := l.request(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a socket: %v", err)
	}
	stop := (&server{list: []*podresourcesv1.PodResources{{Name: "a"}}}).serve(t, path)
	list, first, err := l.request(t.Context())
	if err != nil || len(list) != 1 || list[0].GetName() != "a" {
		t.Errorf("got %v, %v", list, err)
	}
	if _, again, err := l.request(t.Context()); err != nil || !again.Equal(first) {
		t.Errorf("the same kubelet: %v, %v, want %v", again, err, first)
	}
	stop()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.request(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("nobody serves the socket: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	stop = new(server).serve(t, path)
	defer stop()
	if list, next, err := l.request(t.Context()); err != nil || len(list) != 0 || next.Equal(first) {
		t.Errorf("another kubelet: got %v, %v, %v", list, next, err)
	}
}

// A node where no kubelet has a socket has no status of it, unless its path is configured.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	for path, absent := range map[string]bool{Auto: true, "/nowhere/s": false} {
		l := New(Options{Path: path, Journal: journal.New(journal.Options{})})
		l.opts.Path = "/nowhere/s"
		l.list(t.Context(), nil)
		if s := l.Status(); (s == nil) != absent {
			t.Errorf("%s: status %+v", path, s)
		}
		if l.Table().Known() {
			t.Errorf("%s: known", path)
		}
	}
}

// The time for the devices of a container does not grow with the square of their number.
func TestManyDevices(t *testing.T) {
	t.Parallel()
	const n = 100_000
	want := make([]string, n)
	rows := make([]*podresourcesv1.ContainerDevices, n)
	for i := range n {
		want[i] = fmt.Sprintf("%06d", i)
		rows[n-1-i] = &podresourcesv1.ContainerDevices{ResourceName: "example.com/gpu", DeviceIds: []string{want[i]}}
	}
	began := time.Now()
	all := devicesOf(rows)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if len(all) != 1 || !slices.Equal(all[0].IDs, want) {
		t.Errorf("got %d resources, want one with all devices in order", len(all))
	}
}

// What the kubelet says is passed as it is, in a defined order.
func TestResources(t *testing.T) {
	t.Parallel()
	numa := func(ids ...int64) *podresourcesv1.TopologyInfo {
		info := new(podresourcesv1.TopologyInfo)
		for _, id := range ids {
			info.Nodes = append(info.Nodes, &podresourcesv1.NUMANode{ID: id})
		}
		return info
	}
	list := []*podresourcesv1.PodResources{
		{Namespace: "n", Name: "a", CpuIds: []int64{2, 3}, Containers: []*podresourcesv1.ContainerResources{
			{Name: "nothing"},
			{
				Name: "c", CpuIds: []int64{3},
				Devices: []*podresourcesv1.ContainerDevices{
					{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-2::1"}, Topology: numa(1)},
					{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-1"}, Topology: numa(0)},
					{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-0"}, Topology: numa(0)},
					{ResourceName: "intel.com/nic", DeviceIds: []string{"0000:3b:00.1", "0000:3b:00.0"}},
				},
				Memory: []*podresourcesv1.ContainerMemory{{MemoryType: "hugepages-1Gi", Size: 1 << 30, Topology: numa(0, 1)}},
				DynamicResources: []*podresourcesv1.DynamicResource{{ClaimName: "x", ClaimNamespace: "n", ClaimResources: []*podresourcesv1.ClaimResource{
					{DriverName: "gpu.example.com", PoolName: "p/q", DeviceName: "gpu-0", ShareId: new("s"), CdiDevices: []*podresourcesv1.CDIDevice{{Name: "example.com/gpu=0"}}},
				}}},
			},
		}},
	}
	got := resourcesOf(list)
	want := []v1alpha1.ContainerResources{{CPUs: []int64{2, 3}}, {
		Container: "c", CPUs: []int64{3},
		Devices: []v1alpha1.Devices{
			{Resource: "intel.com/nic", IDs: []string{"0000:3b:00.0", "0000:3b:00.1"}},
			{Resource: "nvidia.com/gpu", IDs: []string{"GPU-0", "GPU-1"}, NUMA: []int64{0}},
			{Resource: "nvidia.com/gpu", IDs: []string{"GPU-2::1"}, NUMA: []int64{1}},
		},
		Memory: []v1alpha1.MemoryBlock{{Type: "hugepages-1Gi", Size: 1 << 30, NUMA: []int64{0, 1}}},
		DynamicResources: []v1alpha1.ClaimedDevices{{Claim: "x", Devices: []v1alpha1.ClaimedDevice{
			{Driver: "gpu.example.com", Pool: "p/q", Device: "gpu-0", ShareID: "s", CDI: []string{"example.com/gpu=0"}},
		}}},
	}}
	for name, resources := range got {
		if diff := cmp.Diff(want, resources); diff != "" || name.String() != "n/a" {
			t.Errorf("%v (-want +got):\n%s", name, diff)
		}
	}
	if len(got) != 1 {
		t.Errorf("%d pods", len(got))
	}
	for device, has := range map[string]bool{
		"intel.com/nic:0000:3b:00.1": true, "nvidia.com/gpu:GPU-2::1": true, "gpu.example.com:p/q/gpu-0": true,
		"nvidia.com/gpu:GPU-3": false, "nvidia.com/gpu": false, "GPU-1": false, "": false, "example.com/nic:0000:3b:00.1": false,
	} {
		if Has(&want[1], device) != has {
			t.Errorf("%q: %v", device, !has)
		}
	}
}
