package tracing

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// maxWrites is the maximum number of writes with a span. All writes are counted.
const maxWrites = 32

// trace is the trace of one set. It ends when all subscribers have reported. Then it drops its span, because the journal
// keeps the trace as long as the set.
type trace struct {
	of     *Tracer
	tracer oteltrace.Tracer
	ctx    context.Context //nolint:containedctx // it has the span, and is never done
	span   oteltrace.Span
	began  time.Time

	mu sync.Mutex // guards the fields below
	// recorded means that the number of subscribers was added to waiting, which counts those that have not reported.
	// A report that comes before makes waiting negative.
	recorded, ended bool
	waiting, writes int
	// last is when the last step ended.
	last time.Time
}

// step records a step as a span.
func (tr *trace) step(name string, started, ended time.Time, attributes ...attribute.KeyValue) {
	_, span := tr.tracer.Start(tr.ctx, name, oteltrace.WithTimestamp(started), oteltrace.WithAttributes(attributes...))
	span.End(oteltrace.WithTimestamp(ended))
	if ended.After(tr.last) {
		tr.last = ended
	}
}

func (tr *trace) Merged(started time.Time, updates []config.PodUpdate) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.ended { // to make room for another trace
		return
	}
	ops, pods := make([]string, len(updates)), 0
	for i := range updates {
		ops[i] = updates[i].Op.String()
		pods += len(updates[i].Pods)
	}
	tr.span.SetAttributes(attribute.String("podconfigd.op", strings.Join(ops, ",")), attribute.Int("podconfigd.pods", pods))
	tr.step("merge", started, time.Now())
}

func (tr *trace) Recorded(started time.Time, revision int64, subscribers int) {
	tr.mu.Lock()
	if tr.ended {
		tr.mu.Unlock()
		return
	}
	tr.span.SetAttributes(attribute.Int64("podconfigd.revision", revision), attribute.Int("podconfigd.subscribers", subscribers))
	tr.step("journal", started, time.Now())
	tr.recorded = true
	tr.waiting += subscribers
	tr.unlock()
}

func (tr *trace) Written(subscriber int64, started, ended time.Time) {
	tr.mu.Lock()
	if tr.ended {
		tr.mu.Unlock()
		return
	}
	if tr.writes++; tr.writes <= maxWrites {
		tr.step("write", started, ended, attribute.Int64("podconfigd.subscriber", subscriber))
	} else if ended.After(tr.last) {
		tr.last = ended
	}
	tr.waiting--
	tr.unlock()
}

func (tr *trace) Skipped() {
	tr.mu.Lock()
	tr.waiting--
	tr.unlock()
}

// unlock unlocks the trace, and ends it if all subscribers have reported.
func (tr *trace) unlock() {
	done := tr.recorded && tr.waiting <= 0
	tr.mu.Unlock()
	if done {
		tr.end()
	}
}

// end ends the trace at the end of its last step.
func (tr *trace) end() {
	tr.mu.Lock()
	ended := tr.ended
	tr.ended = true
	if !ended {
		tr.span.SetAttributes(attribute.Int("podconfigd.writes", tr.writes), attribute.Int("podconfigd.missing", max(0, tr.waiting)))
		tr.span.End(oteltrace.WithTimestamp(tr.last))
		tr.tracer, tr.ctx, tr.span = nil, nil, nil
	}
	tr.mu.Unlock()
	if !ended {
		tr.of.remove(tr)
	}
}
