package file

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	degraded  prometheus.Gauge
	manifests *prometheus.GaugeVec
}

// newMetrics registers the metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: "degraded",
			Help: "1 while the path can't be read and its last set is held.",
		}),
		manifests: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: "manifests", Help: "Manifest files by state.",
		}, []string{"state"}),
	}
	if reg != nil {
		reg.MustRegister(m.degraded, m.manifests)
	}
	return m
}
