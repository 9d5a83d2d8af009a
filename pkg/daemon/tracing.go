package daemon

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/tracing"
)

// validateTracing checks what the kubelet checks.
//
// kubelet: ValidateTracingConfiguration in k8s.io/component-base/tracing/api/v1.
func (c *Config) validateTracing(found *faults) {
	if c.Tracing.Endpoint == "" {
		return
	}
	endpoint := c.Tracing.Endpoint
	if !strings.Contains(endpoint, "//") {
		endpoint = "dns://" + endpoint
	}
	address, err := url.Parse(endpoint)
	if err != nil || !slices.Contains([]string{"dns", "unix", "unix-abstract"}, address.Scheme) {
		found.add("tracing.endpoint", "%q is not an address of gRPC: expected HOST:PORT, dns:///HOST:PORT or unix:///PATH", c.Tracing.Endpoint)
	}
}

// newTracer returns the tracer; nil if nothing is traced.
func (c *Config) newTracer(node string, registry prometheus.Registerer) *tracing.Tracer {
	if c.Tracing.SamplingRatePerMillion == 0 {
		return nil
	}
	return tracing.New(tracing.Options{
		Endpoint: c.Tracing.Endpoint, SamplingRatePerMillion: c.Tracing.SamplingRatePerMillion,
		Node: node, Version: version.Get().Version, Registerer: registry,
	})
}

// runTracer exports traces, if there is a tracer.
func (d *Daemon) runTracer(ctx context.Context, group *errgroup.Group) {
	if d.tracer != nil {
		group.Go(func() error { return d.tracer.Run(ctx) })
	}
}
