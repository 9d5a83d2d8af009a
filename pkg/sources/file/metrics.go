package file

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

type metrics struct {
	common    *sources.Metrics
	degraded  prometheus.Gauge
	manifests *prometheus.GaugeVec
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	return &metrics{
		common: sources.NewMetrics(reg),
		degraded: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: "degraded",
			Help: "1 if the path can't be read. The last set stays.",
		}),
		manifests: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podconfigd", Subsystem: "file_source", Name: "manifests", Help: "Manifest files by state.",
		}, []string{"state"}),
	}
}
