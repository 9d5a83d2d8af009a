// Package fakecri is a container runtime for tests. It serves CRI on a unix socket, and has what the test gives it:
//
//	r := fakecri.Start(t)
//	r.Change(func(s *fakecri.State) { s.Sandboxes = append(s.Sandboxes, fakecri.Sandbox("1", "uid", "web")) })
//	r.Hang("ListContainers")
package fakecri

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// State is what the runtime has.
type State struct {
	Name, Version string
	Sandboxes     []*runtimeapi.PodSandboxStatus
	Containers    []*Container
	// Stream serves a stream of events. nil is a runtime without one.
	Stream func(out runtimeapi.RuntimeService_GetContainerEventsServer) error
}

// Container is a container with its sandbox.
type Container struct {
	*runtimeapi.ContainerStatus
	Sandbox string
}

// Sandbox returns a ready sandbox of a pod in the namespace default.
func Sandbox(id, uid, name string) *runtimeapi.PodSandboxStatus {
	return &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid},
		State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
	}
}

// Running returns a running container of a sandbox.
func Running(id, sandbox, name string) *Container {
	now := time.Now().UnixNano()
	return &Container{Sandbox: sandbox, ContainerStatus: &runtimeapi.ContainerStatus{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: name}, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		CreatedAt: now, StartedAt: now, Image: &runtimeapi.ImageSpec{Image: "i"},
	}}
}

// Runtime is a runtime that runs until the test ends.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer

	// Socket is the path of its socket.
	Socket string

	mu    sync.Mutex
	state State
	calls map[string]int
	// hung has the methods that hang, and released is closed when that changes.
	hung     []string
	released chan struct{}
}

// Start starts a runtime with the name and version of containerd 2, and without events.
func Start(tb testing.TB) *Runtime {
	tb.Helper()
	r := &Runtime{
		Socket: filepath.Join(testutil.ShortDir(tb), "cri"), calls: make(map[string]int), released: make(chan struct{}),
		state: State{Name: "containerd", Version: "2.4.2"},
	}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "unix", r.Socket)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := r.enter(ctx, filepath.Base(info.FullMethod)); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}))
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }() // it ends with Stop
	tb.Cleanup(func() { server.Stop(); <-served })
	return r
}

// Change changes what the runtime has.
func (r *Runtime) Change(change func(*State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
}

// Hang makes these methods hang, and no others. "*" is all.
func (r *Runtime) Hang(methods ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung = methods
	close(r.released)
	r.released = make(chan struct{})
}

// Calls returns the number of calls of a method.
func (r *Runtime) Calls(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[method]
}

// enter counts a call, and returns when it does not hang.
func (r *Runtime) enter(ctx context.Context, method string) error {
	r.mu.Lock()
	r.calls[method]++
	for slices.Contains(r.hung, method) || slices.Contains(r.hung, "*") {
		released := r.released
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-released:
		}
		r.mu.Lock()
	}
	r.mu.Unlock()
	return nil
}

// has returns what the runtime has.
func (r *Runtime) has() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Sandboxes, s.Containers = slices.Clone(s.Sandboxes), slices.Clone(s.Containers)
	return s
}

var errNotFound = status.Error(codes.NotFound, "not found")

// Version implements CRI, as do the methods that follow.
func (r *Runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	s := r.has()
	return &runtimeapi.VersionResponse{RuntimeName: s.Name, RuntimeVersion: s.Version, RuntimeApiVersion: "v1"}, nil
}

// ListPodSandbox lists the sandboxes.
func (r *Runtime) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	list := new(runtimeapi.ListPodSandboxResponse)
	for _, s := range r.has().Sandboxes {
		list.Items = append(list.Items, &runtimeapi.PodSandbox{
			Id: s.GetId(), Metadata: s.GetMetadata(), State: s.GetState(), CreatedAt: s.GetCreatedAt(), Annotations: s.GetAnnotations(), Labels: s.GetLabels(),
		})
	}
	return list, nil
}

// ListContainers lists the containers.
func (r *Runtime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	list := new(runtimeapi.ListContainersResponse)
	for _, c := range r.has().Containers {
		list.Containers = append(list.Containers, &runtimeapi.Container{
			Id: c.GetId(), PodSandboxId: c.Sandbox, Metadata: c.GetMetadata(), State: c.GetState(), CreatedAt: c.GetCreatedAt(),
			Annotations: c.GetAnnotations(), Labels: c.GetLabels(),
		})
	}
	return list, nil
}

// PodSandboxStatus returns the status of a sandbox.
func (r *Runtime) PodSandboxStatus(_ context.Context, q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	for _, s := range r.has().Sandboxes {
		if s.GetId() == q.GetPodSandboxId() {
			return &runtimeapi.PodSandboxStatusResponse{Status: s}, nil
		}
	}
	return nil, errNotFound
}

// ContainerStatus returns the status of a container.
func (r *Runtime) ContainerStatus(_ context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	for _, c := range r.has().Containers {
		if c.GetId() == q.GetContainerId() {
			return &runtimeapi.ContainerStatusResponse{Status: c.ContainerStatus}, nil
		}
	}
	return nil, errNotFound
}

// GetContainerEvents serves the stream of the state.
func (r *Runtime) GetContainerEvents(q *runtimeapi.GetEventsRequest, out runtimeapi.RuntimeService_GetContainerEventsServer) error {
	if err := r.enter(out.Context(), "GetContainerEvents"); err != nil {
		return err
	}
	if stream := r.has().Stream; stream != nil {
		return stream(out)
	}
	return r.UnimplementedRuntimeServiceServer.GetContainerEvents(q, out)
}
