package rpc

import (
	"context"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// WatchContainers sends the stream of containers.
func (a *podConfigAPI) WatchContainers(request *v1alpha1.WatchContainersRequest, calls grpc.ServerStreamingServer[v1alpha1.WatchContainersResponse]) error {
	ctx := calls.Context()
	opts, err := params.WatchContainers(request)
	scope, err := a.containers(ctx, &opts, err)
	if err != nil {
		return err
	}
	cursor := a.services.Containers.Watch(scope, opts)
	defer cursor.Close()
	err = sendContainers(ctx, calls, cursor)
	client := grpcClient(ctx)
	klog.FromContext(ctx).V(3).Info("Subscriber of containers left", "reason", err, "pid", client.PID, "userAgent", client.UserAgent)
	return err
}

// ListContainers returns the present containers.
func (a *podConfigAPI) ListContainers(ctx context.Context, request *v1alpha1.ListContainersRequest) (*v1alpha1.ListContainersResponse, error) {
	opts, err := params.ListContainers(request)
	scope, err := a.containers(ctx, &opts, err)
	if err != nil {
		return nil, err
	}
	list, err := a.services.Containers.List(ctx, scope, opts)
	if err != nil {
		return nil, waitError(ctx, err)
	}
	response := &v1alpha1.ListContainersResponse{
		Instance: list.Instance, Revision: list.Revision, Containers: make([]*v1alpha1.PodContainer, len(list.Containers)),
	}
	for i := range list.Containers {
		response.Containers[i] = podContainer(&list.Containers[i])
	}
	return response, nil
}

// containers checks a request for containers, of which err is the fault, and returns what the client sees.
func (a *podConfigAPI) containers(ctx context.Context, opts *containers.WatchOptions, err error) (*view.Scope, error) {
	if err == nil {
		err = a.services.CheckOwners(opts.Owners, opts.Selector.Owner)
	}
	if err != nil {
		return nil, invalid(err)
	}
	scope, err := a.services.Scope(ctx)
	if err == nil {
		err = a.services.Containers.Check()
	}
	return scope, callError(err)
}

// sendContainers sends the updates of the cursor until an error, and returns the error.
func sendContainers(ctx context.Context, calls grpc.ServerStreamingServer[v1alpha1.WatchContainersResponse], cursor *containers.Cursor) error {
	for {
		updates, err := cursor.Next(ctx)
		if err != nil {
			return waitError(ctx, err)
		}
		for _, u := range updates {
			if err := calls.Send(&v1alpha1.WatchContainersResponse{
				Instance: u.Instance, Revision: u.Revision, Time: timestamp(u.Time), Op: params.Operation(string(u.Op)),
				Container: podContainer(u.Container), InitialSyncComplete: u.InitialSyncComplete, Reset_: u.Reset, Message: u.Message,
			}); err != nil {
				return err
			}
		}
	}
}

func podContainer(c *stream.PodContainer) *v1alpha1.PodContainer {
	if c == nil {
		return nil
	}
	return &v1alpha1.PodContainer{
		Container: containerOf(&c.LookupContainer), Resources: resourcesOfOne(c.Resources),
		Pod: &v1alpha1.ContainerPod{
			Namespace: c.Pod.Namespace, Name: c.Pod.Name, Uid: c.Pod.UID, Source: c.Pod.Source, Labels: c.Pod.Labels, Owners: ownersOf(c.Pod.Owners),
		},
	}
}
