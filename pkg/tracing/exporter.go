package tracing

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// exporter exports spans with the embedded exporter, until it is canceled. It logs when exports begin to fail and when they
// succeed again. The spans of a failed export are lost.
type exporter struct {
	*otlptrace.Exporter

	// ctx ends all exports. cancel cancels it.
	ctx              context.Context //nolint:containedctx // the life of the exporter
	cancel           context.CancelFunc
	exported, failed prometheus.Counter

	mu      sync.Mutex // guards the fields below
	logger  klog.Logger
	failing bool
}

func newExporter(inner *otlptrace.Exporter, reg prometheus.Registerer) *exporter {
	e := &exporter{Exporter: inner, logger: klog.Background()}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	in := metric.In(reg, "tracing")
	e.exported = in.Counter("exported_spans_total", "Number of spans that were exported to the collector.")
	e.failed = in.Counter("failed_spans_total", "Number of spans that were lost because an export failed.")
	return e
}

// start connects. It does not wait for the collector.
func (e *exporter) start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logger = klog.FromContext(ctx)
	return e.Start(context.WithoutCancel(ctx))
}

// ExportSpans exports the spans. It never fails: the SDK would only log the error.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(e.ctx, cancel) //nolint:contextcheck // the context of the exporter
	defer stop()
	err := e.Exporter.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.exported.Add(float64(len(spans)))
	} else {
		e.failed.Add(float64(len(spans)))
	}
	switch {
	case err != nil && !e.failing:
		e.logger.Error(err, "Failed to export traces; further failures are only counted")
	case err == nil && e.failing:
		e.logger.Info("Traces are exported again")
	}
	e.failing = err != nil
	return nil
}
