package server

import (
	"context"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
)

// healthPeriod is how often the state that grpc.health.v1 tells is brought up to date.
const healthPeriod = time.Second

// updateHealth has grpc.health.v1 say, of the server and of each service, what /readyz
// does, until the context is done.
func (s *Server) updateHealth(ctx context.Context) error {
	ticker := time.NewTicker(healthPeriod)
	defer ticker.Stop()
	for {
		state := healthpb.HealthCheckResponse_SERVING
		if s.unready() != nil {
			state = healthpb.HealthCheckResponse_NOT_SERVING
		}
		for _, service := range []string{"", v1alpha1.PodConfig_ServiceDesc.ServiceName, podsv1alpha1.Pods_ServiceDesc.ServiceName} {
			s.health.SetServingStatus(service, state)
		}
		select {
		case <-ctx.Done():
			s.health.Shutdown()
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
