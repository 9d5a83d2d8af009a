package components

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// devicePlugin has devices of a resource that do nothing.
type devicePlugin struct {
	devicepluginv1beta1.UnimplementedDevicePluginServer

	ids []string
	// end is closed when the plugin ends.
	end chan struct{}
}

// StartDevicePlugin gives the kubelet devices of a resource, and each kubelet that starts after it, until the test ends.
func StartDevicePlugin(tb testing.TB, resource string, ids ...string) {
	tb.Helper()
	if err := os.MkdirAll(devicepluginv1beta1.DevicePluginPath, 0o750); err != nil {
		tb.Fatal(err)
	}
	p := &devicePlugin{ids: ids, end: make(chan struct{})}
	const name = "podconfigd-test.sock"
	var running sync.WaitGroup
	running.Go(func() { p.run(filepath.Join(devicepluginv1beta1.DevicePluginPath, name), resource) })
	tb.Cleanup(func() { close(p.end); running.Wait() })
}

// run serves, and registers at each kubelet. A kubelet that starts removes the socket of the plugin.
func (p *devicePlugin) run(path, resource string) {
	var server *grpc.Server
	var serving sync.WaitGroup
	stop := func() {
		if server != nil {
			server.Stop()
			serving.Wait()
		}
	}
	defer stop()
	var last time.Time
	for {
		kubelet, err := os.Stat(devicepluginv1beta1.KubeletSocket)
		if err == nil && !kubelet.ModTime().Equal(last) {
			stop()
			_ = os.Remove(path) // it may not be there
			l, err := net.Listen("unix", path)
			if err != nil {
				panic(err)
			}
			server = grpc.NewServer()
			devicepluginv1beta1.RegisterDevicePluginServer(server, p)
			serving.Go(func() { _ = server.Serve(l) }) // it ends with Stop
			if register(filepath.Base(path), resource) == nil {
				last = kubelet.ModTime()
			}
		}
		select {
		case <-p.end:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// register registers the plugin at the kubelet.
func register(endpoint, resource string) error {
	conn, err := grpc.NewClient("unix://"+devicepluginv1beta1.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = devicepluginv1beta1.NewRegistrationClient(conn).Register(ctx, &devicepluginv1beta1.RegisterRequest{
		Version: devicepluginv1beta1.Version, Endpoint: endpoint, ResourceName: resource,
	})
	return err
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *devicepluginv1beta1.Empty) (*devicepluginv1beta1.DevicePluginOptions, error) {
	return new(devicepluginv1beta1.DevicePluginOptions), nil
}

func (p *devicePlugin) ListAndWatch(_ *devicepluginv1beta1.Empty, stream devicepluginv1beta1.DevicePlugin_ListAndWatchServer) error {
	response := new(devicepluginv1beta1.ListAndWatchResponse)
	for _, id := range p.ids {
		response.Devices = append(response.Devices, &devicepluginv1beta1.Device{
			ID: id, Health: devicepluginv1beta1.Healthy,
			Topology: &devicepluginv1beta1.TopologyInfo{Nodes: []*devicepluginv1beta1.NUMANode{{ID: 0}}},
		})
	}
	if err := stream.Send(response); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *devicePlugin) Allocate(_ context.Context, r *devicepluginv1beta1.AllocateRequest) (*devicepluginv1beta1.AllocateResponse, error) {
	response := new(devicepluginv1beta1.AllocateResponse)
	for range r.GetContainerRequests() {
		response.ContainerResponses = append(response.ContainerResponses, new(devicepluginv1beta1.ContainerAllocateResponse))
	}
	return response, nil
}
