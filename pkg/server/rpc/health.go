package rpc

import (
	"context"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
)

// healthPeriod is the interval at which the state of grpc.health.v1 is updated.
const healthPeriod = time.Second

// UpdateHealth updates the state of grpc.health.v1, for the server and for each service, from
// the checks of /readyz until the context is done. unready returns the first failure.
func (s *Services) UpdateHealth(ctx context.Context, unready func() error) error {
	ticker := time.NewTicker(healthPeriod)
	defer ticker.Stop()
	for {
		state := healthpb.HealthCheckResponse_SERVING
		if unready() != nil {
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
