package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// canaryCalls have the calls of each gRPC method, and return their responses.
var canaryCalls = map[string]func(context.Context, *grpc.ClientConn) ([]proto.Message, error){
	"podconfigd.v1alpha1.PodConfig/Watch": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		s, err := podconfigd.NewPodConfigClient(c).Watch(ctx, &podconfigd.WatchRequest{Ops: allOperations()})
		return untilBookmark(s, err, func(m *podconfigd.WatchResponse) bool { return m.GetInitialSyncComplete() })
	},
	"podconfigd.v1alpha1.PodConfig/List": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).List(ctx, &podconfigd.ListRequest{}))
	},
	"podconfigd.v1alpha1.PodConfig/Status": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).Status(ctx, &podconfigd.StatusRequest{}))
	},
	"podconfigd.v1alpha1.PodConfig/History": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).History(ctx, &podconfigd.HistoryRequest{Pods: true}))
	},
	"podconfigd.v1alpha1.PodConfig/Lookup": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).Lookup(ctx, canaryLookup))
	},
	"podconfigd.v1alpha1.PodConfig/LookupStream": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		s, err := podconfigd.NewPodConfigClient(c).LookupStream(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.Send(&podconfigd.LookupStreamRequest{Query: canaryLookup}); err != nil {
			return nil, err
		}
		return one(s.Recv())
	},
	"podconfigd.v1alpha1.PodConfig/WatchContainers": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		s, err := podconfigd.NewPodConfigClient(c).WatchContainers(ctx, &podconfigd.WatchContainersRequest{Labels: true, Owners: true})
		return untilBookmark(s, err, func(m *podconfigd.WatchContainersResponse) bool { return m.GetInitialSyncComplete() })
	},
	"podconfigd.v1alpha1.PodConfig/ListContainers": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).ListContainers(ctx, &podconfigd.ListContainersRequest{Labels: true, Owners: true}))
	},
	"podconfigd.v1alpha1.PodConfig/Resync": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).Resync(ctx, &podconfigd.ResyncRequest{Namespace: "default", Name: "x"}))
	},
	"podconfigd.v1alpha1.PodConfig/Release": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podconfigd.NewPodConfigClient(c).Release(ctx, &podconfigd.ReleaseRequest{Source: "file"}))
	},
	"v1alpha1.Pods/ListPods": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podsv1alpha1.NewPodsClient(c).ListPods(ctx, &podsv1alpha1.ListPodsRequest{}))
	},
	"v1alpha1.Pods/GetPod": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(podsv1alpha1.NewPodsClient(c).GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "seen"}))
	},
	"v1alpha1.Pods/WatchPods": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		s, err := podsv1alpha1.NewPodsClient(c).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
		return untilBookmark(s, err, func(m *podsv1alpha1.WatchPodsEvent) bool {
			return m.GetType() == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE
		})
	},
	"grpc.health.v1.Health/Check": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{}))
	},
	"grpc.health.v1.Health/List": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		return one(healthpb.NewHealthClient(c).List(ctx, &healthpb.HealthListRequest{}))
	},
	"grpc.health.v1.Health/Watch": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		s, err := healthpb.NewHealthClient(c).Watch(ctx, &healthpb.HealthCheckRequest{})
		return untilBookmark(s, err, func(*healthpb.HealthCheckResponse) bool { return true })
	},
	"grpc.reflection.v1.ServerReflection/ServerReflectionInfo": func(ctx context.Context, c *grpc.ClientConn) ([]proto.Message, error) {
		s, err := reflectionpb.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
			return nil, err
		}
		return one(s.Recv())
	},
}

var canaryLookup = &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodIp{PodIp: "10.9.9.9"}, Pods: true}

func one[M proto.Message](m M, err error) ([]proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return []proto.Message{m}, nil
}

func untilBookmark[M any, P interface {
	*M
	proto.Message
}](s grpc.ServerStreamingClient[M], err error, end func(P) bool,
) (all []proto.Message, _ error) {
	for err == nil {
		var m *M
		if m, err = s.Recv(); err == nil {
			if all = append(all, P(m)); end(m) {
				return all, nil
			}
		}
	}
	return all, err
}

// TestNoAnswerHasACanary, over gRPC.
func TestNoCallHasACanary(t *testing.T) {
	d, server := serveCanaries(t, canaryRules())
	hidden, _ := serveCanaries(t, []access.Rule{notMe(access.Full)})
	full, _ := serveCanaries(t, nil)
	conns := map[string]*grpc.ClientConn{
		"some": d.grpc(t, d.socket), "some by the Pods API": d.grpc(t, d.pods), "nothing": hidden.grpc(t, hidden.socket), "all": full.grpc(t, full.socket),
	}
	leaks := 0
	for service, info := range server.rpc.NewServer(t.Context(), false).GetServiceInfo() {
		for _, method := range info.Methods {
			call := canaryCalls[strings.Replace(service, ".v1alpha.", ".v1.", 1)+"/"+method.Name] // of reflection
			if call == nil {
				t.Errorf("%s/%s is served, and not tested here", service, method.Name)
				continue
			}
			for who, conn := range conns {
				ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
				all, err := call(ctx, conn)
				cancel()
				answer := fmt.Sprint(err)
				for _, m := range all {
					data, err := proto.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					answer += string(data)
				}
				has := strings.Contains(strings.ToLower(answer), "canary")
				if has && who == "all" {
					leaks++
				} else if has {
					t.Errorf("%s/%s by one who sees %s: %q", service, method.Name, who, answer)
				}
			}
		}
	}
	if leaks < 9 {
		t.Errorf("without rules, %d answers have a canary: the test can't see one", leaks)
	}
}
