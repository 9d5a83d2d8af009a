package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Lookup returns which pod an ID, an IP, a process or a cgroup belongs to.
func (a *podConfigAPI) Lookup(ctx context.Context, request *v1alpha1.LookupRequest) (*v1alpha1.LookupResponse, error) {
	query, err := params.Lookup(request)
	if err != nil {
		return nil, invalid(err)
	}
	scope, release, err := a.services.Admit(ctx, query)
	if err != nil {
		return nil, callError(err)
	}
	callFrom(ctx).defers(release)
	return a.lookup(ctx, scope, query)
}

// lookup answers a query. Its errors have a code.
func (a *podConfigAPI) lookup(ctx context.Context, scope *view.Scope, query *lookup.Query) (*v1alpha1.LookupResponse, error) {
	answer, err := a.services.Find(ctx, scope, query)
	if err != nil {
		return nil, waitError(ctx, err)
	}
	return lookupResponse(answer)
}

// LookupStream answers queries until the client closes its side. A query that waits has its
// own goroutine.
func (a *podConfigAPI) LookupStream(calls grpc.BidiStreamingServer[v1alpha1.LookupStreamRequest, v1alpha1.LookupStreamResponse]) error {
	ctx, cancel := context.WithCancel(calls.Context())
	defer cancel()
	s := &lookupStream{api: a, calls: calls}
	defer s.waiting.Wait() // after cancel
	for {
		request, err := calls.Recv()
		if errors.Is(err, io.EOF) {
			s.waiting.Wait()
			return s.failed()
		}
		if err != nil {
			return err
		}
		s.take(ctx, request)
		if err := s.failed(); err != nil {
			return err
		}
	}
}

// lookupStream is a call of LookupStream.
type lookupStream struct {
	api     *podConfigAPI
	calls   grpc.BidiStreamingServer[v1alpha1.LookupStreamRequest, v1alpha1.LookupStreamResponse]
	waiting sync.WaitGroup

	mu  sync.Mutex // guards sends, and what follows
	err error
}

// failed returns the error of the first send that failed.
func (s *lookupStream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// take answers a query, or starts its wait.
func (s *lookupStream) take(ctx context.Context, request *v1alpha1.LookupStreamRequest) {
	query, err := params.Lookup(request.GetQuery())
	if err != nil {
		s.send(ctx, request.GetId(), nil, invalid(err), false)
		return
	}
	scope, release, err := s.api.services.Admit(ctx, query)
	switch {
	case err != nil:
		s.send(ctx, request.GetId(), nil, callError(err), false)
	case query.Wait > 0:
		s.waiting.Go(func() { s.answer(ctx, request.GetId(), scope, query, release) })
	default:
		s.answer(ctx, request.GetId(), scope, query, release)
	}
}

func (s *lookupStream) answer(ctx context.Context, id uint64, scope *view.Scope, query *lookup.Query, release func()) {
	defer release()
	answer, err := s.api.lookup(ctx, scope, query)
	s.send(ctx, id, answer, err, query.Pods)
}

// send sends the answer to a query, or its error. An answer with pods counts as a list, so
// send returns after it is written.
func (s *lookupStream) send(ctx context.Context, id uint64, answer *v1alpha1.LookupResponse, err error, pods bool) {
	response := &v1alpha1.LookupStreamResponse{Id: id, Result: &v1alpha1.LookupStreamResponse_Answer{Answer: answer}}
	if err != nil {
		failure := status.Convert(err)
		response.Result = &v1alpha1.LookupStreamResponse_Error{Error: &v1alpha1.LookupError{
			Code: int32(failure.Code()), Message: printable.Cut(failure.Message(), respond.MaxMessage),
		}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case pods:
		s.err = s.api.services.sendWritten(ctx, s.calls, response)
	default:
		s.err = s.calls.Send(response)
	}
}

func lookupResponse(answer *stream.Lookup) (*v1alpha1.LookupResponse, error) {
	response := &v1alpha1.LookupResponse{
		Instance: answer.Instance, Revision: answer.Revision, Pods: make([]*v1alpha1.LookupPod, len(answer.Pods)),
	}
	if h := answer.Host; h != nil {
		response.Host = &v1alpha1.LookupHost{Namespace: h.Namespace, Pods: uint32(h.Pods)}
	}
	response.Namespaces, response.Node = metadataOf(answer.Namespaces, answer.Node)
	for i := range answer.Pods {
		p := &answer.Pods[i]
		pod := &v1alpha1.LookupPod{
			Namespace: p.Namespace, Name: p.Name, Uid: p.UID, Labels: p.Labels, Source: p.Source, Revision: p.Revision,
			Phase: p.Phase, PodIps: p.PodIPs, HostNetwork: p.HostNetwork, Ended: timestamp(p.Ended), StatusBy: p.StatusBy,
			Secondary: p.Secondary, PodMissing: p.PodMissing,
		}
		pod.Container, pod.Owners, pod.Resources = containerOf(p.Container), ownersOf(p.Owners), resourcesOf(p.Resources)
		if p.Pod != nil {
			data, err := p.Pod.Marshal()
			if err != nil {
				return nil, status.Error(codes.Internal, err.Error())
			}
			pod.Pod = data
		}
		response.Pods[i] = pod
	}
	return response, nil
}

func containerOf(c *stream.LookupContainer) *v1alpha1.LookupContainer {
	if c == nil {
		return nil
	}
	return &v1alpha1.LookupContainer{
		Id: c.ID, Name: c.Name, Sandbox: c.Sandbox, State: c.State, ExitCode: c.ExitCode,
		Restarts: uint32(c.Restarts), Started: timestamp(c.Started), Ended: timestamp(c.Ended),
		SandboxId: c.SandboxID, Pid: int32(c.PID), StartTime: c.StartTime, Cgroup: c.Cgroup, CgroupId: c.CgroupID,
		Netns: c.NetNS, Mntns: c.MntNS, Pidns: c.PidNS, Cgroupns: c.CgroupNS,
	}
}

func ownersOf(owners []stream.Owner) (messages []*v1alpha1.Owner) {
	for _, o := range owners {
		messages = append(messages, &v1alpha1.Owner{ApiVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, Uid: o.UID, Labels: o.Labels})
	}
	return messages
}

func resourcesOf(all []stream.ContainerResources) (messages []*v1alpha1.ContainerResources) {
	for i := range all {
		messages = append(messages, resourcesOfOne(&all[i]))
	}
	return messages
}

func resourcesOfOne(r *stream.ContainerResources) *v1alpha1.ContainerResources {
	if r == nil {
		return nil
	}
	message := &v1alpha1.ContainerResources{Container: r.Container, Cpus: r.CPUs}
	for _, d := range r.Devices {
		message.Devices = append(message.Devices, &v1alpha1.Devices{Resource: d.Resource, Ids: d.IDs, Numa: d.NUMA})
	}
	for _, m := range r.Memory {
		message.Memory = append(message.Memory, &v1alpha1.MemoryBlock{Type: m.Type, Size: m.Size, Numa: m.NUMA})
	}
	for _, claim := range r.DynamicResources {
		claimed := &v1alpha1.ClaimedDevices{Claim: claim.Claim}
		for _, d := range claim.Devices {
			claimed.Devices = append(claimed.Devices, &v1alpha1.ClaimedDevice{
				Driver: d.Driver, Pool: d.Pool, Device: d.Device, ShareId: d.ShareID, Cdi: d.CDI,
			})
		}
		message.DynamicResources = append(message.DynamicResources, claimed)
	}
	return message
}

func timestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
