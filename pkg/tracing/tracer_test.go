package tracing

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a collector that keeps the spans.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*otlp.Span
}

func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// names returns the names of the spans, in order.
func (r *receiver) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		names = append(names, s.GetName())
	}
	slices.Sort(names)
	return names
}

// span returns the span with the name.
func (r *receiver) span(name string) *otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// number returns a number among the attributes.
func number(s *otlp.Span, key string) int64 {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == "podconfigd."+key {
			return a.GetValue().GetIntValue()
		}
	}
	return -1
}

func newReceiver(t *testing.T) (r *receiver, endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = &receiver{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return r, l.Addr().String()
}

// run runs a tracer of every set until the returned function is called.
func run(t *testing.T, endpoint string) (*Tracer, func()) {
	t.Helper()
	tracer := New(Options{Endpoint: endpoint, SamplingRatePerMillion: 1000000})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx) }()
	testutil.Until(t, "it runs", func() bool { return tracer.tracer.Load() != nil })
	return tracer, func() { cancel(); <-done }
}

func event() config.Event {
	now := time.Now()
	return config.Event{Time: now, Began: now, Read: now.Add(time.Millisecond)}
}

// A trace ends when each subscriber got the set or needs nothing of it. Its span ends with the last
// write.
func TestTraceEndsWithTheLastSubscriber(t *testing.T) {
	t.Parallel()
	r, endpoint := newReceiver(t)
	tracer, stop := run(t, endpoint)
	tr := tracer.Trace("file", event())
	now := time.Now()
	tr.Merged(now, []config.PodUpdate{{Op: config.REMOVE}, {Op: config.ADD}})
	tr.Written(1, now, now.Add(time.Second)) // before it is known how many there are
	tr.Recorded(now, 7, 3)
	tr.Skipped()
	if n := len(tracer.open); n != 1 {
		t.Errorf("%d traces are open before the last write", n)
	}
	tr.Written(3, now, now.Add(2*time.Second))
	if n := len(tracer.open); n != 0 {
		t.Errorf("%d traces are open after the last write", n)
	}
	testutil.Until(t, "the spans arrive", func() bool { return len(r.names()) >= 6 })
	stop()
	if got, want := r.names(), []string{"journal", "merge", "read", "update", "write", "write"}; !slices.Equal(got, want) {
		t.Fatalf("spans %v, want %v", got, want)
	}
	root := r.span("update")
	if ended := time.Unix(0, int64(root.GetEndTimeUnixNano())); !ended.Equal(now.Add(2 * time.Second).Truncate(0)) {
		t.Errorf("it ended at %v, want %v", ended, now.Add(2*time.Second))
	}
	if number(root, "revision") != 7 || number(root, "writes") != 2 || number(root, "missing") != 0 {
		t.Errorf("attributes %v", root.GetAttributes())
	}
	for _, name := range []string{"read", "merge", "journal", "write"} {
		if s := r.span(name); !bytes.Equal(s.GetParentSpanId(), root.GetSpanId()) {
			t.Errorf("%s is not a child of update", name)
		}
	}
}

// A trace whose subscriber never reports ends too, and there are never many of them or many spans.
func TestTracesAreBounded(t *testing.T) {
	t.Parallel()
	r, endpoint := newReceiver(t)
	tracer, stop := run(t, endpoint)
	for n := range 2 * maxOpen {
		tr := tracer.Trace("file", event())
		tr.Recorded(time.Now(), 1, 1000)
		for i := range 10 * maxWrites {
			if n == 0 { // the queue of spans has room for those of one
				tr.Written(int64(i), time.Now(), time.Now())
			}
		}
	}
	if n := len(tracer.open); n != maxOpen {
		t.Errorf("%d open traces, want %d", n, maxOpen)
	}
	tracer.endBefore(time.Now())
	if n := len(tracer.open); n != 0 {
		t.Errorf("%d open traces are left", n)
	}
	testutil.Until(t, "the spans arrive", func() bool { return len(r.names()) >= 3*2*maxOpen+maxWrites })
	stop()
	writes := slices.DeleteFunc(r.names(), func(name string) bool { return name != "write" })
	if len(writes) != maxWrites {
		t.Errorf("%d writes have a span, want %d", len(writes), maxWrites)
	}
	root := r.span("update") // that of the first, which ended first
	if number(root, "writes") != 10*maxWrites || number(root, "missing") != 1000-10*maxWrites {
		t.Errorf("attributes %v", root.GetAttributes())
	}
}

// A collector that refuses connections, or accepts them and never answers, delays nothing.
func TestCollectorThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for name, endpoint := range map[string]string{"refused": "127.0.0.1:1", "silent": l.Addr().String(), "unknown": "unix:///does/not/exist"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, stop := run(t, endpoint)
			begin := time.Now()
			for range 2000 { // if each waited for the collector, they would take hours
				tr := tracer.Trace("file", event())
				tr.Merged(time.Now(), nil)
				tr.Recorded(time.Now(), 1, 0)
			}
			if took := time.Since(begin); took > testutil.Patience {
				t.Errorf("2000 traces took %v", took)
			}
			begin = time.Now()
			stop()
			if took := time.Since(begin); took > exportTime {
				t.Errorf("the end took %v", took)
			}
		})
	}
}

// Before it runs, nothing is traced. A part of the sets is traced if the rate says so.
func TestSampling(t *testing.T) {
	t.Parallel()
	if tr := New(Options{SamplingRatePerMillion: 1000000}).Trace("file", event()); tr != nil {
		t.Error("a set is traced before the tracer runs")
	}
	_, endpoint := newReceiver(t)
	tracer, stop := run(t, endpoint)
	stop()
	tracer.opts.SamplingRatePerMillion = 100000
	provider := tracer.provider()
	defer func() { _ = provider.Shutdown(t.Context()) }()
	tracer.tracer.Store(new(provider.Tracer("test")))
	traced := 0
	for range 10000 {
		if tracer.Trace("file", event()) != nil {
			traced++
		}
	}
	if traced < 500 || traced > 2000 {
		t.Errorf("%d of 10000 sets are traced, want about 1000", traced)
	}
}

// The journal keeps a trace as long as its set, and a late step of a trace that was ended is nothing.
func TestEndedTraceKeepsNoSpan(t *testing.T) {
	t.Parallel()
	_, endpoint := newReceiver(t)
	tracer, stop := run(t, endpoint)
	defer stop()
	now := time.Now()
	var all []*trace
	for range maxOpen + 1 {
		all = append(all, tracer.Trace("file", event()).(*trace))
	}
	first := all[0] // it had to make room
	first.Merged(now, nil)
	first.Recorded(now, 1, 1)
	first.Written(1, now, now)
	first.Skipped()
	last := all[maxOpen]
	last.Recorded(now, 2, 0)
	for _, tr := range []*trace{first, last} {
		if !tr.ended || tr.span != nil || tr.ctx != nil {
			t.Errorf("ended %t, span %v, context %v", tr.ended, tr.span, tr.ctx)
		}
	}
}
