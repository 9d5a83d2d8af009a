package http

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// board has the status.
type board struct {
	*sources.Board
	reporter *sources.Reporter
	metrics  *metrics
}

func newBoard(name, url string, m *metrics) *board {
	return &board{reporter: sources.NewReporter(), Board: sources.NewBoard(v1alpha1.SourceStatus{
		Name: name,
		HTTP: &v1alpha1.HTTPStatus{URL: url, Manifests: []v1alpha1.Manifest{}},
	}, m.degraded, m.common), metrics: m}
}

// succeeded records that the server gave a good answer.
func (b *board) succeeded(ctx context.Context) {
	now := time.Now()
	b.Update(func(status *v1alpha1.SourceStatus) { status.HTTP.LastSuccess = &now })
	b.Succeeded(ctx, "The manifest URL can be read again")
}

type metrics struct {
	decodes, failures prometheus.Counter
	degraded          prometheus.Gauge
	common            *sources.Metrics
	manifests         *prometheus.GaugeVec
	decodeDuration    prometheus.Observer
}

// newMetrics registers the source's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	const namespace, subsystem = "podconfigd", "http_source"
	factory := promauto.With(reg)
	return &metrics{
		common: sources.NewMetrics(reg), decodeDuration: sources.NewDecodeDuration(reg),
		manifests: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "manifests", Help: "Pods of the URL, and items without a pod, by state.",
		}, []string{"state"}),
		decodes: factory.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "decodes_total", Help: "Answers that were decoded.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "failures_total", Help: "Failed requests.",
		}),
		degraded: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "degraded", Help: "1 if the URL can't be read. The last pods stay.",
		}),
	}
}
