// Command spire-attestor is a workload attestor of SPIRE that asks podconfigd for the pod of a process. It has the selectors of
// SPIRE's own attestor k8s, without those of images. The agent and podconfigd must be in one PID namespace.
package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl"
	"github.com/spiffe/spire-plugin-sdk/pluginmain"
	workloadattestorv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/plugin/agent/workloadattestor/v1"
	configv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/service/common/config/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
)

func main() {
	a := new(attestor)
	pluginmain.Serve(workloadattestorv1.WorkloadAttestorPluginServer(a), configv1.ConfigServiceServer(a))
}

type attestor struct {
	workloadattestorv1.UnimplementedWorkloadAttestorServer
	configv1.UnimplementedConfigServer

	settings atomic.Pointer[settings]
}

type settings struct {
	client *client.Client
	wait   time.Duration
}

// Configure reads plugin_data of the configuration of the agent.
func (a *attestor) Configure(_ context.Context, req *configv1.ConfigureRequest) (*configv1.ConfigureResponse, error) {
	data := struct {
		Socket string `hcl:"socket"`
		Wait   string `hcl:"wait"`
	}{client.DefaultSocket(), "30s"}
	if err := hcl.Decode(&data, req.GetHclConfiguration()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "reading plugin_data: %v", err)
	}
	wait, err := time.ParseDuration(data.Wait)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "plugin_data: wait: %v", err)
	}
	a.settings.Store(&settings{client.New(data.Socket), wait})
	return new(configv1.ConfigureResponse), nil
}

// Attest waits until podconfigd knows the container of the process and its pod. A process that runs in no container has no
// selectors.
func (a *attestor) Attest(ctx context.Context, req *workloadattestorv1.AttestRequest) (*workloadattestorv1.AttestResponse, error) {
	s := a.settings.Load()
	if s == nil {
		return nil, status.Error(codes.FailedPrecondition, "not configured")
	}
	found, err := s.client.Lookup(ctx, client.LookupQuery{PID: int(req.GetPid()), Wait: s.wait, Pods: true})
	var refused *client.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusNotFound:
		return new(workloadattestorv1.AttestResponse), nil
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "looking up process %d: %v", req.GetPid(), err)
	}
	// Without a pod from a source, nobody vouches for the labels and the service account.
	pod, container := found.Pods[0].Pod, found.Pods[0].Container
	if pod == nil || container == nil {
		return nil, status.Errorf(codes.Unavailable, "process %d is in the pod %s/%s, which no source has", req.GetPid(), found.Pods[0].Namespace, found.Pods[0].Name)
	}
	return &workloadattestorv1.AttestResponse{SelectorValues: selectors(pod, container.Name)}, nil
}

// selectors are those of SPIRE's attestor, in its file pkg/agent/plugin/workloadattestor/k8s/k8s.go, without images: these are in the
// status of the pod, which can come later.
func selectors(pod *v1.Pod, container string) []string {
	all := []string{
		"sa:" + pod.Spec.ServiceAccountName,
		"ns:" + pod.Namespace,
		"node-name:" + pod.Spec.NodeName,
		"pod-uid:" + string(pod.UID),
		"pod-name:" + pod.Name,
		"container-name:" + container,
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		all = append(all, "pod-label:"+key+":"+pod.Labels[key])
	}
	for i := range pod.OwnerReferences {
		owner := &pod.OwnerReferences[i]
		all = append(all, "pod-owner:"+owner.Kind+":"+owner.Name, "pod-owner-uid:"+owner.Kind+":"+string(owner.UID))
	}
	return all
}
