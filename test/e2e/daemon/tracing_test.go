package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
)

// traces is a collector of traces. It hands on every span.
type traces struct {
	collector.UnimplementedTraceServiceServer

	spans chan *otlp.Span
}

func (c *traces) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans <- span
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// tracing writes a config file that traces every set to the endpoint.
func tracing(t *testing.T, dir, endpoint string) string {
	t.Helper()
	path := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\ntracing: {endpoint: %q, samplingRatePerMillion: 1000000}\n", endpoint)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// attribute returns an attribute as text.
func attribute(span *otlp.Span, key string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() == "podconfigd."+key {
			return strings.Trim(a.GetValue().String(), " ")
		}
	}
	return ""
}

// Each change of a file is a trace, from the event to the last subscriber.
func TestTraces(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &traces{spans: make(chan *otlp.Span, 1000)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)

	dir := testutil.ShortDir(t)
	d := e2e.Start(t, dir, "--config", tracing(t, dir, l.Addr().String()))
	d.Mkdir(t)
	first, second := d.Watch(t, client.Options{}), d.Watch(t, client.Options{})
	nothing := d.Watch(t, client.Options{Namespace: "other"}) // it gets nothing of the update
	for _, s := range []*e2e.Stream{first, second, nothing} {
		e2e.SyncUp(t, s)
	}
	testutil.Until(t, "the traces begin", func() bool { return strings.Contains(metrics(t, d), "podconfigd_tracing_exported_spans_total") })
	d.Put(t, "a", "i")
	first.Expect(t, "ADD a-node1")
	second.Expect(t, "ADD a-node1")

	byTrace := make(map[string][]*otlp.Span)
	for begin, more := time.Now(), 1; ; {
		var span *otlp.Span
		select {
		case span = <-c.spans:
		case <-time.After(5 * time.Second): // short: it tries again until the patience ends
			if time.Since(begin) > testutil.Patience {
				t.Fatalf("no trace of the updates: %v", byTrace)
			}
			more++ // the first update can come before the traces begin
			d.Put(t, fmt.Sprint("a", more), "i")
			continue
		}
		id := string(span.GetTraceId())
		byTrace[id] = append(byTrace[id], span)
		if span.GetName() == "update" && strings.Contains(attribute(span, "pods"), ":1") {
			checkTrace(t, span, byTrace[id])
			return
		}
	}
}

// checkTrace checks the trace of an ADD of one pod that two of three subscribers get.
func checkTrace(t *testing.T, root *otlp.Span, spans []*otlp.Span) {
	t.Helper()
	var names []string
	for _, span := range spans {
		names = append(names, span.GetName())
		if span.GetStartTimeUnixNano() < root.GetStartTimeUnixNano() || span.GetEndTimeUnixNano() > root.GetEndTimeUnixNano() {
			t.Errorf("%s is not within the update", span.GetName())
		}
	}
	slices.Sort(names)
	if want := []string{"journal", "merge", "read", "update", "write", "write"}; !slices.Equal(names, want) {
		t.Errorf("spans %v, want %v", names, want)
	}
	for key, want := range map[string]string{
		"source": `"file"`, "op": `"ADD"`, "subscribers": ":3", "writes": ":2", "missing": ":0", "revision": ":1",
	} {
		if got := attribute(root, key); !strings.Contains(got, want) {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

// A collector that accepts connections and never answers delays neither updates nor the end.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	testutil.Within(t, 2*time.Second, "the end", func() time.Duration { // short: the end is tested
		dir := testutil.ShortDir(t)
		d := e2e.Start(t, dir, "--config", tracing(t, dir, l.Addr().String()))
		d.Mkdir(t)
		s := d.Watch(t, client.Options{})
		e2e.SyncUp(t, s)
		for i := range 20 {
			d.Put(t, fmt.Sprintf("p%d", i), "i")
			s.Expect(t, fmt.Sprintf("ADD p%d-node1", i))
		}
		took, err := d.End(t, syscall.SIGTERM)
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
		return took
	})
}
