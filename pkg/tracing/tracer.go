package tracing

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
)

const (
	// DefaultEndpoint is the default endpoint of OTLP over gRPC.
	DefaultEndpoint = "localhost:4317"
	// maxOpen is the maximum number of traces that wait for subscribers. A trace waits for at most maxWait, and then
	// ends without the missing writes.
	maxOpen = 64
	maxWait = 10 * time.Second
	// batchTime is how long spans are collected. exportTime is the maximum time of an export, and flushTime of the last
	// export when Run ends.
	batchTime  = time.Second
	exportTime = 5 * time.Second
	flushTime  = 500 * time.Millisecond
)

// Options configure a Tracer.
type Options struct {
	// Endpoint is the address of the collector in gRPC's syntax; DefaultEndpoint if empty. The connection is not
	// encrypted.
	Endpoint string
	// SamplingRatePerMillion is how many of a million sets are traced.
	SamplingRatePerMillion int32
	// Node and Version are attributes of the resource.
	Node, Version string
	// Registerer is for the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Tracer makes and exports traces. It is a config.Tracer.
type Tracer struct {
	opts     Options
	exporter *exporter
	// tracer is nil before Run: until then, nothing is traced.
	tracer atomic.Pointer[oteltrace.Tracer]

	mu   sync.Mutex // guards open; never locked together with the mutex of a trace
	open []*trace
}

// New returns a Tracer. It does nothing before Run.
func New(opts Options) *Tracer {
	// A failed export is not retried: it would delay the next spans.
	inner := otlptracegrpc.NewUnstarted(
		otlptracegrpc.WithEndpoint(cmp.Or(opts.Endpoint, DefaultEndpoint)), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}), otlptracegrpc.WithTimeout(exportTime))
	return &Tracer{opts: opts, exporter: newExporter(inner, opts.Registerer)}
}

// provider returns the maker and exporter of spans.
func (t *Tracer) provider() *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(float64(t.opts.SamplingRatePerMillion)/1e6)),
		sdktrace.WithBatcher(t.exporter, sdktrace.WithBatchTimeout(batchTime), sdktrace.WithExportTimeout(exportTime)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "podconfigd"), attribute.String("service.version", t.opts.Version),
			attribute.String("k8s.node.name", t.opts.Node))),
	)
}

// Trace begins the trace of a set, at its event.
func (t *Tracer) Trace(source string, event config.Event) config.Trace {
	tracer := t.tracer.Load()
	if tracer == nil {
		return nil
	}
	ctx, span := (*tracer).Start(context.Background(), "update", oteltrace.WithNewRoot(), oteltrace.WithTimestamp(event.Time))
	if !span.IsRecording() {
		return nil
	}
	span.SetAttributes(attribute.String("podconfigd.source", source))
	tr := &trace{of: t, tracer: *tracer, ctx: ctx, span: span, began: time.Now(), last: event.Time}
	tr.step("read", event.Began, event.Read)
	t.mu.Lock()
	t.open = append(t.open, tr)
	var oldest *trace
	if len(t.open) > maxOpen {
		oldest, t.open = t.open[0], t.open[1:]
	}
	t.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
	return tr
}

// remove forgets a trace that has ended.
func (t *Tracer) remove(tr *trace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(o *trace) bool { return o == tr })
}

// endBefore ends the traces that began before the limit.
func (t *Tracer) endBefore(limit time.Time) {
	t.mu.Lock()
	var late []*trace
	for _, tr := range t.open {
		if tr.began.Before(limit) {
			late = append(late, tr)
		}
	}
	t.mu.Unlock()
	for _, tr := range late {
		tr.end()
	}
}

// Run makes and exports traces until the context is done. Then it exports the last spans within flushTime, and returns the
// cause of the context.
func (t *Tracer) Run(ctx context.Context) error {
	if err := t.exporter.start(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to export traces; nothing is traced", "endpoint", t.opts.Endpoint)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	provider := t.provider()
	t.tracer.Store(new(provider.Tracer("github.com/podconfigd/podconfigd")))
	for await.For(ctx, time.Second) == nil {
		t.endBefore(time.Now().Add(-maxWait))
	}
	t.tracer.Store(nil)
	t.endBefore(time.Now())
	stop := time.AfterFunc(flushTime, t.exporter.cancel)
	defer stop.Stop()
	_ = provider.Shutdown(context.WithoutCancel(ctx)) // the exporter reports its errors
	t.exporter.cancel()
	return context.Cause(ctx)
}
