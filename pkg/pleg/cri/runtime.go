package cri

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg"
)

const (
	// firstRetry and lastRetry bound the wait before a connection is tried again, the
	// latter far below gRPC's two minutes: a runtime that restarts is there in seconds.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	// maxMessage is how large an answer may be: a list of all containers can be.
	//
	// kubelet: k8s.io/cri-client/pkg/utils.go maxMsgSize.
	maxMessage = 16 << 20
)

// Runtime is a runtime behind a CRI socket.
//
// It uses the generated client rather than k8s.io/cri-client, whose constructor
// fails unless the runtime answers, which logs what it returns, and which brings
// OpenTelemetry's gRPC instrumentation.
type Runtime struct {
	conn   *grpc.ClientConn
	client runtimeapi.RuntimeServiceClient
}

var _ pleg.Runtime = (*Runtime)(nil)

// New returns the runtime at an endpoint, a path or a unix:// URL of one. It does
// not connect yet. It must be closed.
func New(endpoint string) (*Runtime, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: firstRetry, Multiplier: backoff.DefaultConfig.Multiplier,
			Jitter: backoff.DefaultConfig.Jitter, MaxDelay: lastRetry,
		}}))
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %q: %w", endpoint, err)
	}
	return &Runtime{conn: conn, client: runtimeapi.NewRuntimeServiceClient(conn)}, nil
}

// SocketPath returns the path of the socket that an endpoint names.
func SocketPath(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	switch {
	case strings.Contains(path, "://"):
		return "", fmt.Errorf("runtime endpoint %q: want a unix socket, as in unix:///run/containerd/containerd.sock", endpoint)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("runtime endpoint %q: want an absolute path, as in unix:///run/containerd/containerd.sock", endpoint)
	}
	return path, nil
}

// Close ends the connection.
func (r *Runtime) Close() error { return r.conn.Close() }

// Ping asks the runtime for its version.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.client.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return fmt.Errorf("asking the runtime for its version: %w", err)
	}
	return nil
}

// Pods lists the sandboxes and containers.
//
// kubelet: pkg/kubelet/kuberuntime/kuberuntime_manager.go GetPods.
func (r *Runtime) Pods(ctx context.Context) ([]*pleg.Pod, error) {
	sandboxes, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the runtime's sandboxes: %w", err)
	}
	containers, err := r.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the runtime's containers: %w", err)
	}
	return group(sandboxes.GetItems(), containers.GetContainers()), nil
}

// ExitCode asks for the status of a container.
func (r *Runtime) ExitCode(ctx context.Context, containerID string) (*int32, error) {
	resp, err := r.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: containerID})
	if status.Code(err) == codes.NotFound {
		return nil, nil //nolint:nilnil // it is gone, and nobody knows its exit code
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the status of container %s: %w", containerID, err)
	}
	if resp.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		return nil, fmt.Errorf("asking for the exit code of container %s: it is %v", containerID, resp.GetStatus().GetState())
	}
	code := resp.GetStatus().GetExitCode()
	return &code, nil
}

// Events follows the runtime's events.
func (r *Runtime) Events(ctx context.Context, opened func(), handle func(pleg.RuntimeEvent)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // else the stream would outlive an error of ours
	stream, err := r.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return eventsError(err)
	}
	opened()
	for {
		event, err := stream.Recv()
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
		return errors.Join(pleg.ErrNoEvents, err)
	}
	return fmt.Errorf("following the runtime's events: %w", err)
}
