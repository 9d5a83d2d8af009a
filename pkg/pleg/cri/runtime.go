// Package cri implements the container runtime of package pleg with CRI:
//
//	runtime, err := cri.New("unix:///run/containerd/containerd.sock")
//	...
//	defer runtime.Close()
//	pods, err := runtime.Pods(ctx)
package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg"
)

const (
	// firstRetry and lastRetry are the minimum and maximum wait before a reconnect. A runtime restarts in seconds. The
	// default maximum of gRPC is two minutes.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	// maxMessage is the maximum size of a response. A list of all containers can be large.
	//
	// kubelet: k8s.io/cri-client/pkg/utils.go maxMsgSize.
	maxMessage = 16 << 20
	// atOnce is the time in which a runtime ends the stream that it does not have.
	atOnce = time.Second
	// firstBroadcasting is the first major version of containerd that gives its events to all clients.
	firstBroadcasting = 2
)

// Runtime is a container runtime with a CRI socket.
//
// It uses the generated client, not k8s.io/cri-client. The constructor of cri-client fails if the runtime does not answer.
// cri-client also logs the errors that it returns, and depends on the gRPC instrumentation of OpenTelemetry.
type Runtime struct {
	conn   *grpc.ClientConn
	client runtimeapi.RuntimeServiceClient
	path   string // of its socket
	// name is the name of the runtime. It is nil until the runtime has answered on the present connection, because the
	// socket can be that of another runtime after a reconnect.
	name atomic.Pointer[string]
}

var _ pleg.Runtime = (*Runtime)(nil)

// New returns the runtime at an endpoint: a path or a unix:// URL. It does not connect. The caller must close the runtime.
func New(endpoint string) (*Runtime, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	r := &Runtime{path: path}
	r.conn, err = grpc.NewClient("unix://"+path,
		grpc.WithContextDialer(r.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(inTime),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: firstRetry, Multiplier: backoff.DefaultConfig.Multiplier,
			Jitter: backoff.DefaultConfig.Jitter, MaxDelay: lastRetry,
		}}))
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %q: %w", endpoint, err)
	}
	r.client = runtimeapi.NewRuntimeServiceClient(r.conn)
	return r, nil
}

// inTime gives calls that take too long one error. The texts of gRPC depend on which side notices it first, and each would
// be logged.
func inTime(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, resp, conn, opts...)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return status.Error(codes.DeadlineExceeded, "no answer in time")
	}
	return err
}

func (r *Runtime) dial(ctx context.Context, _ string) (net.Conn, error) {
	r.name.Store(nil)
	return new(net.Dialer).DialContext(ctx, "unix", r.path)
}

// SocketPath returns the path of the socket of an endpoint.
func SocketPath(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	switch {
	case strings.Contains(path, "://"):
		return "", fmt.Errorf("runtime endpoint %q: expected a unix socket, for example unix:///run/containerd/containerd.sock", endpoint)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("runtime endpoint %q: expected an absolute path, for example unix:///run/containerd/containerd.sock", endpoint)
	}
	return path, nil
}

// Close closes the connection.
func (r *Runtime) Close() error { return r.conn.Close() }

// Pods lists the sandboxes and containers.
//
// kubelet: pkg/kubelet/kuberuntime/kuberuntime_manager.go GetPods.
func (r *Runtime) Pods(ctx context.Context) ([]*pleg.Pod, error) {
	sandboxes, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if status.Code(err) == codes.Unimplemented {
		err = fmt.Errorf("the server at %s has no CRI v1: name the CRI socket of the runtime with --container-runtime-endpoint: %w", r.path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the sandboxes of the runtime: %w", err)
	}
	containers, err := r.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the containers of the runtime: %w", err)
	}
	return group(sandboxes.GetItems(), containers.GetContainers()), nil
}

// Exit requests how a container ended. It returns nil if the container is gone.
func (r *Runtime) Exit(ctx context.Context, containerID string) (*pleg.Exit, error) {
	resp, err := r.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: containerID})
	if status.Code(err) == codes.NotFound {
		return nil, nil //nolint:nilnil // the container is gone, and its end unknown
	}
	if err != nil {
		return nil, fmt.Errorf("requesting the status of container %s: %w", containerID, err)
	}
	if resp.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		return nil, fmt.Errorf("requesting the exit code of container %s: expected an exited container, got state %v", containerID, resp.GetStatus().GetState())
	}
	s := resp.GetStatus()
	return &pleg.Exit{Code: s.GetExitCode(), StartedAt: timeOf(s.GetStartedAt()), FinishedAt: timeOf(s.GetFinishedAt())}, nil
}

// Events receives the events of the runtime. containerd before 2.0 gives each event to only one of its clients, and the kubelet
// can be another one. So its stream is not opened.
func (r *Runtime) Events(ctx context.Context, opened func(), handle func(pleg.RuntimeEvent)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	resp, err := r.client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return fmt.Errorf("requesting the version of the runtime: %w", err)
	}
	if v, err := version.ParseGeneric(resp.GetRuntimeVersion()); resp.GetRuntimeName() == "containerd" && (err != nil || v.Major() < firstBroadcasting) {
		return fmt.Errorf("%w that can be used: containerd %s gives each event to one of its clients only, containerd 2 to all", pleg.ErrNoEvents, resp.GetRuntimeVersion())
	}
	stream, err := r.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return eventsError(err)
	}
	opened()
	begin := time.Now()
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) && time.Since(begin) < atOnce {
			return fmt.Errorf("%w: it ends at once; CRI-O has one with enable_pod_events = true", pleg.ErrNoEvents)
		}
		if err != nil {
			return eventsError(err)
		}
		if e, ok := convertEvent(event); ok {
			handle(e)
		}
	}
}

func eventsError(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("%w: %w", pleg.ErrNoEvents, err)
	}
	return fmt.Errorf("receiving events from the runtime: %w", err)
}
