package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	service "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) {
	retries.Duration, retries.Cap = time.Millisecond, 10*time.Millisecond
	goleak.VerifyTestMain(m)
}

// answer answers a request to the Collector.
type answer func(context.Context, *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error)

// serveCollector serves the method of the Collector, and returns its address.
func serveCollector(t *testing.T, with credentials.TransportCredentials, a answer) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(with))
	name, method, _ := strings.Cut(strings.TrimPrefix(exportMethod, "/"), "/")
	server.RegisterService(&grpc.ServiceDesc{ServiceName: name, Methods: []grpc.MethodDesc{{
		MethodName: method,
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var request service.ExportLogsServiceRequest
			if err := decode(&request); err != nil {
				return nil, err
			}
			partial, err := a(ctx, &request)
			return &service.ExportLogsServiceResponse{PartialSuccess: partial}, err
		},
	}}}, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}

// daemon is an HTTP server with the paths of the daemon. Each request for the stream gets the next of the streams, and the last stays
// open. A stream that begins with nil is refused for now. The history begins at its first record. Those without an operation are not
// selected. If the first is nil, the first request for the history fails.
type daemon struct {
	mu      sync.Mutex // guards streams
	streams [][]*v1alpha1.Update
	// asked are the revisions from which streams are requested.
	asked chan string
	*httptest.Server
}

func serveDaemon(t *testing.T, history []*v1alpha1.HistoryRecord, streams ...[]*v1alpha1.Update) *daemon {
	t.Helper()
	d := &daemon{streams: streams, asked: make(chan string, 100)}
	var failed atomic.Bool
	mux := http.NewServeMux()
	answer := func(w io.Writer, v any) { fmt.Fprintln(w, asJSON(v)) }
	mux.HandleFunc("/v1alpha1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, v1alpha1.Status{NodeName: "node1"}) })
	mux.HandleFunc("/v1alpha1/history", func(w http.ResponseWriter, r *http.Request) {
		if history == nil {
			http.Error(w, "no state directory", http.StatusNotFound)
			return
		}
		if history[0] == nil && failed.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		page, kept := v1alpha1.History{}, false
		after, instance := r.URL.Query().Get("after"), r.URL.Query().Get("instance")
		for _, r := range history {
			if r == nil {
				continue
			}
			earlier := after != "" && fmt.Sprint(r.Revision) <= after
			kept = kept || earlier && r.Instance == instance
			if (!earlier || r.Gap != "") && (r.Op != "" || r.Gap != "") {
				page.Records = append(page.Records, *r)
			}
		}
		if after != "" && !kept {
			http.Error(w, "deleted", http.StatusGone)
			return
		}
		answer(w, page)
	})
	mux.HandleFunc("/v1alpha1/updates", func(w http.ResponseWriter, r *http.Request) {
		d.asked <- r.URL.Query().Get("since")
		d.mu.Lock()
		stream, last := d.streams[0], len(d.streams) == 1
		if !last {
			d.streams = d.streams[1:]
		}
		d.mu.Unlock()
		if len(stream) > 0 && stream[0] == nil {
			http.Error(w, "too many subscribers", http.StatusTooManyRequests)
			return
		}
		for _, u := range stream {
			answer(w, u)
		}
		_ = http.NewResponseController(w).Flush()
		if last {
			<-r.Context().Done()
		}
	})
	d.Server = httptest.NewServer(mux)
	t.Cleanup(d.Close)
	return d
}

func clientOf(t *testing.T, d *daemon) *client.Client {
	t.Helper()
	c, err := client.NewForConfig(client.Config{Server: d.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs the command until the test ends. stop ends it earlier, and returns what it has printed.
func start(t *testing.T, d *daemon, o *Options) (stop func() string) {
	t.Helper()
	c := clientOf(t, d)
	if o.stateFile == "" {
		o.stateFile = filepath.Join(t.TempDir(), "position")
	}
	if o.body == "" {
		o.body = "none"
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, notes := make(chan error, 1), new(testutil.Buffer)
	go func() { done <- o.Run(ctx, c, cli.IOStreams{ErrOut: notes}) }()
	stopped := false
	stop = func() string {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Errorf("the command failed: %v", err)
			}
		}
		return notes.String()
	}
	t.Cleanup(func() { stop() })
	return stop
}

// lines are the records of a request: the event, the pod and the revision, and the text of a gap.
func lines(request *service.ExportLogsServiceRequest) (lines []string) {
	for _, r := range request.ResourceLogs[0].ScopeLogs[0].LogRecords {
		lines = append(lines, line(r))
	}
	return lines
}

func line(r *logs.LogRecord) string {
	parts := []string{strings.TrimPrefix(r.EventName, "podconfigd.")}
	for _, a := range r.Attributes {
		switch a.Key {
		case "k8s.pod.name":
			parts = append(parts, a.Value.GetStringValue())
		case "podconfigd.revision":
			parts = append(parts, fmt.Sprint(a.Value.GetIntValue()))
		}
	}
	if r.EventName == gapEvent {
		parts = append(parts, r.Body.GetStringValue())
	}
	return strings.Join(parts, " ")
}

// wantPosition waits for the stored position.
func wantPosition(t *testing.T, o *Options, revision int64) {
	t.Helper()
	testutil.Eventually(t, func() error {
		p, err := loadPosition(o.stateFile)
		if err == nil && p.Revision != revision {
			err = fmt.Errorf("the stored revision is %d, want %d", p.Revision, revision)
		}
		return err
	})
}

// decode returns a list of objects, one JSON object a line.
func decode[T any](t *testing.T, text string) (all []*T) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		one := new(T)
		switch err := d.Decode(one); err {
		case io.EOF:
			return all
		case nil:
			all = append(all, one)
		default:
			t.Fatal(err)
		}
	}
}
