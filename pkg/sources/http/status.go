package http

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// subsystem is part of the names of the metrics.
const subsystem = "http_source"

// board has the status.
type board struct {
	*sources.Board
	reporter  *sources.Reporter
	manifests *prometheus.GaugeVec
}

func newBoard(name, url string, reg prometheus.Registerer) *board {
	return &board{
		Board: sources.NewBoard(v1alpha1.SourceStatus{
			Name: name, HTTP: &v1alpha1.HTTPStatus{URL: url, Manifests: []v1alpha1.Manifest{}},
		}, reg, subsystem, "1 if the URL can't be read. The last pods stay."),
		reporter:  sources.NewReporter(),
		manifests: metric.In(reg, subsystem).GaugeVec("manifests", "Pods of the URL, and items without a pod, by state.", "state"),
	}
}

// succeeded records that the server gave a good answer.
func (b *board) succeeded(ctx context.Context) {
	now := time.Now()
	b.Update(func(status *v1alpha1.SourceStatus) { status.HTTP.LastSuccess = &now })
	b.Succeeded(ctx, "The manifest URL can be read again")
}
