package export

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	service "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// newSender returns an exporter that sends to a Collector.
func newSender(t *testing.T, collector answer) *exporter {
	t.Helper()
	address := serveCollector(t, insecure.NewCredentials(), collector)
	e := &exporter{Options: &Options{collectorFlags: collectorFlags{address: "http://" + address}}, note: func(error) {}, metrics: newMetrics(nil)}
	to, err := e.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.conn.Close() })
	e.collector = to
	return e
}

// added are the records of an update.
func (e *exporter) added(revision int64, names ...string) (records []*logs.LogRecord) {
	for _, i := range newConverter(e, position{"i", 1}).items(update(revision, v1alpha1.OpAdd, names...))[:len(names)] {
		records = append(records, i.record)
	}
	return records
}

// A Collector that refuses everything, also a gap, refuses no record for good. What fails before a request leaves has such a code too.
func TestWhoRefusesEverythingIsAskedAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.InvalidArgument} {
		t.Run(code.String(), func(t *testing.T) {
			var got []string
			requests := 0
			e := newSender(t, func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
				if requests++; requests <= 21 {
					return nil, status.Error(code, "unexpected HTTP status code received from server: 500")
				}
				got = append(got, lines(r)...)
				return nil, nil
			})
			if err := e.send(t.Context(), e.added(2, "a", "b", "c")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"pod.add a 2", "pod.add b 2", "pod.add c 2"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A Collector can say that it rejected more than it got.
func TestThePartialSuccessIsImpossible(t *testing.T) {
	for rejected, want := range map[int64]string{4: "the Collector rejected 3 of the 3", 1 << 62: "the Collector rejected 3 of the 3", -1: ""} {
		gap := ""
		e := newSender(t, func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
			if last := lines(r)[len(lines(r))-1]; strings.HasPrefix(last, "gap") {
				gap = last
			}
			return &service.ExportLogsPartialSuccess{RejectedLogRecords: rejected}, nil
		})
		if err := e.send(t.Context(), e.added(2, "a", "b", "c")); err != nil || !strings.Contains(gap, want) || want == "" && gap != "" {
			t.Errorf("%d: got %v and %q, want %q", rejected, err, gap, want)
		}
	}
}

// A gap is small, whatever the Collector says.
func TestALongReasonIsCut(t *testing.T) {
	for _, refusal := range []error{nil, status.Error(codes.InvalidArgument, strings.Repeat("x", 10*maxReason))} {
		longest := 0
		e := newSender(t, func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
			if record := r.ResourceLogs[0].ScopeLogs[0].LogRecords[0]; record.EventName == gapEvent {
				longest = len(record.Body.GetStringValue())
				return nil, nil
			}
			return &service.ExportLogsPartialSuccess{RejectedLogRecords: 1, ErrorMessage: strings.Repeat("x", 10*maxReason)}, refusal
		})
		if err := e.send(t.Context(), e.added(2, "a")); err != nil || longest < maxReason || longest > 2*maxReason {
			t.Errorf("got %v and a gap of %d bytes", err, longest)
		}
	}
}

// The reading and the sending goroutine can fail at once.
func TestNotesOfTwoGoroutines(t *testing.T) {
	var notes strings.Builder
	note := noter(&notes)
	var both sync.WaitGroup
	for _, text := range []string{"the daemon", "the Collector"} {
		both.Go(func() { note(errors.New(text)) })
	}
	both.Wait()
	if lines := strings.Count(notes.String(), "\n"); lines != 2 {
		t.Errorf("%d lines:\n%s", lines, notes.String())
	}
}

// A Collector can't put off a request for longer than an hour.
func TestADelayOfACentury(t *testing.T) {
	asked, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(100 * 365 * 24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if again, delay := mayPass(asked.Err()); !again || delay != maxDelay {
		t.Errorf("got %v, %v, want true, %v", again, delay, maxDelay)
	}
}
