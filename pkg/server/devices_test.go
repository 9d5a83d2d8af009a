package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// The metrics of devices are a series for each device, on the socket.
func TestDeviceMetrics(t *testing.T) {
	code, body := serveLookup(t, conn.Limits{}).get(t, "/metrics/devices")
	want := `# HELP podconfigd_device_info 1 for each device that the kubelet assigned to a container, by the pod and the top of its owners.
# TYPE podconfigd_device_info gauge
podconfigd_device_info{container="app",device="gpu-0",namespace="default",owner="deployment/web",pod="web",resource="example.com/gpu",uid="web"} 1
podconfigd_device_info{container="app",device="node1/gpu-0",namespace="default",owner="deployment/web",pod="web",resource="gpu.example.com",uid="web"} 1
podconfigd_device_info{container="app",device="other",namespace="default",owner="deployment/web",pod="web",resource="example.com/gpu",uid="web"} 1
`
	if code != http.StatusOK || body != want {
		t.Errorf("got %d %s, want %s", code, body, want)
	}
	if problems, err := promlint.New(strings.NewReader(body)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Before the devices are known, no series would mean that all are free.
func TestDeviceMetricsBeforeTheDevicesAreKnown(t *testing.T) {
	for name, test := range map[string]struct {
		devices func() *devices.Table
		want    int
	}{
		"not known": {func() *devices.Table { return new(devices.Table) }, http.StatusServiceUnavailable},
		"off":       {nil, http.StatusNotImplemented},
	} {
		d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) {
			o.Lookup = lookup.New(lookup.Options{Journal: o.Journal, Devices: test.devices})
		})
		if code, body := d.get(t, "/metrics/devices"); code != test.want {
			t.Errorf("%s: got %d %s, want %d", name, code, body, test.want)
		}
	}
}

// They need authentication and the access rules, because they name pods.
func TestDeviceMetricsAreNotForAll(t *testing.T) {
	withDevices := func(o *Options) {
		o.Lookup = lookup.New(lookup.Options{Journal: o.Journal, Devices: devicesOf("web", "gpu-0")})
	}
	d, local := serveLocal(t, conn.Limits{}, withDevices)
	for _, address := range []string{local, serveMetrics(t, d.server)} {
		resp, err := http.Get("http://" + address + "/metrics/devices")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("got %d on an address without authentication", resp.StatusCode)
		}
	}
	for level, want := range map[access.Level]string{access.None: "may not read pods", access.Metadata: "", access.Redacted: `pod="web"`} {
		d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) {
			withDevices(o)
			o.Policy = access.NewPolicy([]access.Rule{me(level)})
		})
		d.web(config.ADD, "10.0.0.1")
		if _, body := d.get(t, "/metrics/devices"); !strings.Contains(body, want) || want == "" && body != "" {
			t.Errorf("%v: got %s", level, body)
		}
	}
}
