package rest

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// deviceInfo describes the metric of a device of a container.
var deviceInfo = prometheus.NewDesc("podconfigd_device_info",
	"1 for each device that the kubelet assigned to a container, by the pod and the top of its owners.",
	[]string{"resource", "device", "namespace", "pod", "uid", "container", "owner"}, nil)

// RouteDevices adds the path of the metrics of devices. They name pods, so it is not for all listeners that serve metrics.
func (a *API) RouteDevices(mux respond.Router) {
	mux.HandleFunc("/metrics/devices", a.listed(func(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
		if a.Lookup == nil {
			respond.Failure(w, backend.ErrNoLookup)
			return
		}
		answer, err := a.Lookup.Devices(scope)
		if err != nil {
			respond.Failure(w, err)
			return
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(deviceCollector{answer})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}))
}

// deviceCollector collects the metric of an answer of lookup.Lookup.Devices.
type deviceCollector struct{ answer *v1alpha1.Lookup }

func (deviceCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- deviceInfo //nolint:ctxsend // the registry receives all
}

func (c deviceCollector) Collect(metrics chan<- prometheus.Metric) {
	seen := make(map[[7]string]bool) // two claims of a container can have the same device
	for i := range c.answer.Pods {
		p := &c.answer.Pods[i]
		for j := range p.Resources {
			r := &p.Resources[j]
			if r.Container != p.Container.Name {
				continue
			}
			for resource, device := range r.Named() {
				labels := [7]string{resource, device, p.Namespace, p.Name, p.UID, r.Container, topOf(p.Owners)}
				if !seen[labels] {
					seen[labels] = true
					metrics <- prometheus.MustNewConstMetric(deviceInfo, prometheus.GaugeValue, 1, labels[:]...) //nolint:ctxsend // the registry receives all
				}
			}
		}
	}
}

// topOf returns the last of the owners of a pod, as in deployment/web; empty without owners.
func topOf(owners []v1alpha1.Owner) string {
	if len(owners) == 0 {
		return ""
	}
	top := &owners[len(owners)-1]
	return strings.ToLower(top.Kind) + "/" + top.Name
}
