package daemon

import (
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

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

// tracer is the part that exports traces, if something is traced.
func (d *Daemon) tracer(registry prometheus.Registerer) []part {
	c := &d.config.Tracing
	if c.SamplingRatePerMillion == 0 {
		return nil
	}
	tracer := tracing.New(tracing.Options{
		Endpoint: c.Endpoint, SamplingRatePerMillion: c.SamplingRatePerMillion,
		Node: string(d.node), Version: version.Get().Version, Registerer: registry,
	})
	d.podConfig.SetTracer(tracer)
	return []part{{name: "tracing", run: tracer.Run}}
}
