package export

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	service "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/test/components"
)

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
}

// update is an update of a pod; 0 is no revision.
func update(revision int64, op v1alpha1.Op, names ...string) *v1alpha1.Update {
	u := &v1alpha1.Update{Instance: "i", Revision: revision, Op: op, Source: "file"}
	for _, name := range names {
		u.Pods = append(u.Pods, pod(name))
	}
	return u
}

func synced(revision int64) *v1alpha1.Update {
	return &v1alpha1.Update{Instance: "i", Revision: revision, Op: v1alpha1.OpBookmark, InitialSyncComplete: true}
}

func reset(why string) *v1alpha1.Update {
	return &v1alpha1.Update{Instance: "i", Op: v1alpha1.OpBookmark, Reset: true, Message: why}
}

// collect starts a Collector that accepts everything, and passes on the lines.
func collect(t *testing.T) (address string, got chan string) {
	t.Helper()
	got = make(chan string, 1000)
	return serveCollector(t, insecure.NewCredentials(), func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		for _, line := range lines(r) {
			got <- line
		}
		return nil, nil
	}), got
}

func want(t *testing.T, got <-chan string, want ...string) {
	t.Helper()
	var all []string
	for range want {
		all = append(all, <-got)
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// All pieces of an update have its revision. The position is that of the last acknowledged update, and the next start continues there.
func TestTheStreamIsExportedAndResumed(t *testing.T) {
	address, got := collect(t)
	piece := update(0, v1alpha1.OpRemove, "a")
	piece.Continues = true
	d := serveDaemon(t, nil, []*v1alpha1.Update{
		update(0, v1alpha1.OpAdd, "a"), synced(4), piece, update(7, v1alpha1.OpAdd, "b", "c"), update(8, v1alpha1.OpBookmark),
	}, []*v1alpha1.Update{update(9, v1alpha1.OpReconcile, "b")})
	first := &Options{collectorFlags: collectorFlags{address: "http://" + address}}
	stop := start(t, d, first)
	want(t, got, "pod.add a", "pod.remove a 7", "pod.add b 7", "pod.add c 7", "pod.reconcile b 9")
	wantPosition(t, first, 9)
	stop()
	start(t, d, &Options{collectorFlags: first.collectorFlags, stateFile: first.stateFile})
	for _, revision := range []string{"", "8", "9"} {
		if asked := <-d.asked; asked != revision {
			t.Errorf("the stream is requested from %q, want %q", asked, revision)
		}
	}
}

func TestARecord(t *testing.T) {
	got := make(chan *service.ExportLogsServiceRequest, 1)
	address := serveCollector(t, insecure.NewCredentials(), func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		got <- r
		return nil, nil
	})
	at := time.Unix(5, 6)
	u := update(0, v1alpha1.OpAdd, "a")
	u.Restored, u.Time = true, &at
	u.Owners = map[string][]v1alpha1.Owner{"uid-a": {{Kind: "ReplicaSet", Name: "web-1", UID: "r"}, {Kind: "Deployment", Name: "web", UID: "d"}, {Kind: "Other", Name: "x"}}}
	start(t, serveDaemon(t, nil, []*v1alpha1.Update{u}), &Options{collectorFlags: collectorFlags{address: "http://" + address}, body: "object"})
	all := (<-got).ResourceLogs[0]
	r := all.ScopeLogs[0].LogRecords[0]
	about := show(all.Resource.Attributes) + "\n" + show(r.Attributes)
	if diff := cmp.Diff(`service.name=podconfigd k8s.node.name=node1
podconfigd.instance=i podconfigd.source=file podconfigd.initial=true podconfigd.restored=true k8s.namespace.name=default k8s.pod.name=a k8s.pod.uid=uid-a `+
		`k8s.replicaset.name=web-1 k8s.replicaset.uid=r k8s.deployment.name=web k8s.deployment.uid=d`, about); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if body := decode[v1.Pod](t, r.Body.GetStringValue())[0]; body.Name != "a" || r.TimeUnixNano != 5_000_000_006 || r.SeverityText != "INFO" {
		t.Errorf("got %v", r)
	}
}

func show(attributes []*common.KeyValue) string {
	var all []string
	for _, a := range attributes {
		value := a.Value.GetStringValue()
		if a.Value.GetBoolValue() {
			value = "true"
		}
		all = append(all, a.Key+"="+value)
	}
	return strings.Join(all, " ")
}

func TestTheBodyIsTheDifference(t *testing.T) {
	e := &exporter{Options: &Options{body: "diff"}, diff: poddiff.NewStream(), metrics: newMetrics(nil)}
	c := newConverter(e, position{"i", 1})
	before, after := update(2, v1alpha1.OpAdd, "a"), update(3, v1alpha1.OpUpdate, "a")
	after.Pods[0].Labels, after.Pods[0].Annotations = map[string]string{"k": "v"}, map[string]string{"k": "v\nspec.nodeName: a"}
	before.Pods[0].Annotations = map[string]string{"k": "v"}
	if got := c.items(before)[0].record.Body.GetStringValue(); got != "" {
		t.Errorf("the body of an ADD is %q", got)
	}
	if got := c.items(after)[0].record.Body.GetStringValue(); got != `metadata.labels: (none) → {"k":"v"}`+"\n"+`metadata.annotations.k: v → v\nspec.nodeName: a` {
		t.Errorf("got %q", got)
	}
}

// What may pass is repeated. Until then, nothing is stored.
func TestARequestIsRepeated(t *testing.T) {
	wait, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	failures := make(chan error, 7)
	for _, failure := range []error{
		status.Error(codes.Unavailable, "away"), wait.Err(), status.Error(codes.Unauthenticated, "who"), status.Error(codes.PermissionDenied, "no"),
		status.Error(codes.Unimplemented, "what"), status.Error(codes.DeadlineExceeded, "late"), nil,
	} {
		failures <- failure
	}
	got := make(chan string, 100)
	o := &Options{stateFile: filepath.Join(t.TempDir(), "position")}
	o.address = "http://" + serveCollector(t, insecure.NewCredentials(), func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		if _, err := os.Stat(o.stateFile); err == nil {
			t.Error("a position is stored")
		}
		got <- lines(r)[0]
		return nil, <-failures
	})
	stop := start(t, serveDaemon(t, nil, []*v1alpha1.Update{update(0, v1alpha1.OpAdd, "a"), synced(1)}), o)
	for range cap(failures) {
		want(t, got, "pod.add a")
	}
	wantPosition(t, o, 1)
	if notes := stop(); strings.Count(notes, "sending to "+o.address) != 6 || strings.Contains(notes, "rpc error") {
		t.Errorf("got the notes %s", notes)
	}
}

// A Collector that does not answer is asked again.
func TestACollectorThatHangs(t *testing.T) {
	defer func(before time.Duration) { exportTimeout = before }(exportTimeout)
	exportTimeout = 50 * time.Millisecond // short: it is what is tested
	var hangs sync.Once
	got := make(chan string, 100)
	address := serveCollector(t, insecure.NewCredentials(), func(ctx context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		hangs.Do(func() { <-ctx.Done() })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		got <- lines(r)[0]
		return nil, nil
	})
	stop := start(t, serveDaemon(t, nil, []*v1alpha1.Update{update(0, v1alpha1.OpAdd, "a")}), &Options{collectorFlags: collectorFlags{address: "http://" + address}})
	want(t, got, "pod.add a")
	stop()
}

// In the place of a record that is refused for good is a gap, and all others arrive once, in their order.
func TestARecordThatIsRefusedIsAGap(t *testing.T) {
	got := make(chan string, 100)
	address := serveCollector(t, insecure.NewCredentials(), func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		for _, r := range r.ResourceLogs[0].ScopeLogs[0].LogRecords {
			if r.EventName != gapEvent && strings.Contains(line(r), "bad") {
				return nil, status.Error(codes.InvalidArgument, "I do not like it")
			}
		}
		for _, line := range lines(r) {
			got <- line
		}
		return nil, nil
	})
	o := &Options{collectorFlags: collectorFlags{address: "http://" + address}}
	stop := start(t, serveDaemon(t, nil, []*v1alpha1.Update{synced(1), update(2, v1alpha1.OpAdd, "a", "b", "bad1", "c", "d"), update(3, v1alpha1.OpAdd, "e", "bad2")}), o)
	want(t, got, "pod.add a 2", "pod.add b 2", "gap bad1 2 the Collector rejected 1 of the 1 records up to this one: I do not like it",
		"pod.add c 2", "pod.add d 2", "pod.add e 3", "gap bad2 3 the Collector rejected 1 of the 1 records up to this one: I do not like it")
	wantPosition(t, o, 3)
	stop()
}

// A Collector can accept only some records, and does not say which. They are not sent again.
func TestAPartialSuccessIsAGap(t *testing.T) {
	got, partial := make(chan string, 100), &service.ExportLogsPartialSuccess{RejectedLogRecords: 2, ErrorMessage: "too old"}
	e := newSender(t, func(_ context.Context, r *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		for _, line := range lines(r) {
			got <- line
		}
		return partial, nil
	})
	if err := e.send(t.Context(), e.added(2, "a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	want(t, got, "pod.add a 2", "pod.add b 2", "pod.add c 2", "gap c 2 the Collector rejected 2 of the 3 records up to this one: too old")
}

func record(revision int64, op v1alpha1.Op, name string) *v1alpha1.HistoryRecord {
	return &v1alpha1.HistoryRecord{Instance: "i", Revision: revision, Op: op, Source: "file", Pod: pod(name)}
}

// If the stream can't be resumed, the changes come from the history, and then the stream from its last revision.
func TestAResetIsFilledFromTheHistory(t *testing.T) {
	address, got := collect(t)
	other := record(6, v1alpha1.OpAdd, "other")
	other.Pod.Namespace = "kube-system"
	gone := record(8, v1alpha1.OpRemove, "a")
	gone.Before, gone.Pod = gone.Pod, nil
	d := serveDaemon(t, []*v1alpha1.HistoryRecord{
		record(3, v1alpha1.OpAdd, "a"), record(5, v1alpha1.OpUpdate, "a"), other, {Instance: "i", Revision: 7, Gap: "a disk was full"}, gone,
	}, []*v1alpha1.Update{reset("too old"), update(0, v1alpha1.OpAdd, "z"), synced(8)}, []*v1alpha1.Update{update(9, v1alpha1.OpAdd, "b")})
	o := &Options{collectorFlags: collectorFlags{address: "http://" + address}, stateFile: filepath.Join(t.TempDir(), "position")}
	o.Namespace = "default"
	if err := (position{"i", 4}).store(o.stateFile); err != nil {
		t.Fatal(err)
	}
	start(t, d, o)
	want(t, got, "pod.update a 5", "gap 6 changes after revision 6 can be missing: a disk was full", "pod.remove a 8", "pod.add b 9")
	for _, revision := range []string{"4", "8"} {
		if asked := <-d.asked; asked != revision {
			t.Errorf("the stream is requested from %q, want %q", asked, revision)
		}
	}
}

// A daemon that is killed while its history is read is asked again.
func TestTheHistoryIsReadAgain(t *testing.T) {
	address, got := collect(t)
	d := serveDaemon(t, []*v1alpha1.HistoryRecord{nil, record(3, v1alpha1.OpAdd, "a"), record(5, v1alpha1.OpUpdate, "a")},
		[]*v1alpha1.Update{reset("too old")}, []*v1alpha1.Update{reset("too old")}, []*v1alpha1.Update{update(9, v1alpha1.OpAdd, "b")})
	o := &Options{collectorFlags: collectorFlags{address: "http://" + address}, stateFile: filepath.Join(t.TempDir(), "position")}
	if err := (position{"i", 4}).store(o.stateFile); err != nil {
		t.Fatal(err)
	}
	start(t, d, o)
	want(t, got, "pod.update a 5", "pod.add b 9")
}

// What neither the stream nor the history has is one record. The current pods follow.
func TestAResetThatCanNotBeFilledIsAGap(t *testing.T) {
	for name, test := range map[string]struct {
		history []*v1alpha1.HistoryRecord
		labels  string
		want    []string
	}{
		"no history":                       {want: []string{"gap 4 changes after revision 4 can be missing: too old", "pod.add z", "pod.add b 9"}},
		"of another instance":              {history: []*v1alpha1.HistoryRecord{{Instance: "j", Revision: 1}}, want: []string{"gap 4 changes after revision 4 can be missing: too old", "pod.add z", "pod.add b 9"}},
		"a selection":                      {history: []*v1alpha1.HistoryRecord{record(3, v1alpha1.OpAdd, "a"), record(5, v1alpha1.OpAdd, "c")}, labels: "app=web", want: []string{"gap 4 changes after revision 4 can be missing: too old", "pod.add z", "pod.add b 9"}},
		"it begins later":                  {history: []*v1alpha1.HistoryRecord{record(6, v1alpha1.OpAdd, "c")}, want: []string{"gap 4 changes after revision 4 can be missing: the history of the daemon begins later", "pod.add c 6"}},
		"a source without a change before": {history: []*v1alpha1.HistoryRecord{{Instance: "i", Revision: 4}, record(6, v1alpha1.OpAdd, "c")}, want: []string{"pod.add c 6"}},
		"it has nothing newer":             {history: []*v1alpha1.HistoryRecord{record(3, v1alpha1.OpAdd, "c")}, want: []string{"pod.add b 9"}},
		"its end is not stored": {
			history: []*v1alpha1.HistoryRecord{record(4, v1alpha1.OpAdd, "c"), {Instance: "i", Gap: "updates are not stored: a disk is full"}},
			want:    []string{"gap 4 changes after revision 4 can be missing: too old", "pod.add z", "pod.add b 9"},
		},
		"it ends with a gap": {
			history: []*v1alpha1.HistoryRecord{record(4, v1alpha1.OpAdd, "c"), {Instance: "i", Revision: 4, Gap: "a disk was full"}},
			want:    []string{"gap 4 changes after revision 4 can be missing: too old", "pod.add z", "pod.add b 9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, got := collect(t)
			d := serveDaemon(t, test.history, []*v1alpha1.Update{reset("too old"), update(0, v1alpha1.OpAdd, "z"), synced(8), update(9, v1alpha1.OpAdd, "b")}, nil)
			o := &Options{collectorFlags: collectorFlags{address: "http://" + address}, stateFile: filepath.Join(t.TempDir(), "position")}
			o.LabelSelector = test.labels
			if err := (position{"i", 4}).store(o.stateFile); err != nil {
				t.Fatal(err)
			}
			start(t, d, o)
			want(t, got, test.want...)
		})
	}
}

// While the Collector is away, a batch and the records ahead of it are in memory, and the stream is not read.
func TestABatchIsBounded(t *testing.T) {
	items := make(chan item, ahead)
	large := newRecord(v1alpha1.OpAdd, nil, 1, nil, strings.Repeat("x", maxBatch/2))
	for range 5 {
		items <- item{record: large}
	}
	items <- item{reached: position{"i", 9}}
	close(items)
	var sizes []int
	var last position
	for first := range items {
		records, reached := batch(first, items)
		sizes, last = append(sizes, len(records)), reached
	}
	if diff := cmp.Diff([]int{2, 2, 1}, sizes); diff != "" || last.Revision != 9 {
		t.Errorf("%s, position %v", diff, last)
	}
}

// The files are read for each request.
func TestCredentialsAndMetrics(t *testing.T) {
	ca, dir := components.NewAuthority(t, "ca"), t.TempDir()
	cert, key := ca.Issue(t, "node1")
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca.PEM)
	with := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13})
	token := file("token", []byte("old\n"))
	got := make(chan string, 100)
	address := serveCollector(t, with, func(ctx context.Context, _ *service.ExportLogsServiceRequest) (*service.ExportLogsPartialSuccess, error) {
		headers, _ := metadata.FromIncomingContext(ctx)
		said := strings.Join(headers["authorization"], ",")
		got <- said + " " + strings.Join(headers["x-scope-orgid"], ",")
		if said == "Bearer old" {
			return nil, errors.Join(status.Error(codes.Unauthenticated, "expired"), os.WriteFile(token, []byte("new"), 0o600))
		}
		return nil, nil
	})
	metrics := components.FreeAddress(t)
	o := &Options{metrics: metrics, collectorFlags: collectorFlags{
		address: "https://" + address, caFile: file("ca.crt", ca.PEM), certFile: file("crt", cert), keyFile: file("key", key), tokenFile: token,
		headersFile: file("headers", []byte("\nX-Scope-OrgID: fleet\n")),
	}}
	start(t, serveDaemon(t, nil, []*v1alpha1.Update{update(0, v1alpha1.OpAdd, "a"), synced(1)}), o)
	want(t, got, "Bearer old fleet", "Bearer new fleet")
	wantPosition(t, o, 1)
	resp, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	for _, line := range []string{"records_total 1", "rejected_records_total 0", "gaps_total 0", "failures_total 1", "lag_seconds 0"} {
		if !strings.Contains(string(text), "\npodconfigd_export_"+line+"\n") || err != nil {
			t.Errorf("no %s (%v) in:\n%s", line, err, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRefusedFlags(t *testing.T) {
	for want, o := range map[string]*Options{
		"--otlp is not set":   {body: "none"},
		"is not an address":   {body: "none", collectorFlags: collectorFlags{address: "localhost:4317"}},
		"require each other":  {body: "none", collectorFlags: collectorFlags{address: "https://c:4317", certFile: "c"}},
		"--otlp-ca-file and":  {body: "none", collectorFlags: collectorFlags{address: "http://c:4317", caFile: "c"}},
		"on this machine":     {body: "none", collectorFlags: collectorFlags{address: "http://c:4317", tokenFile: "c"}},
		`unknown body "whole`: {body: "whole", collectorFlags: collectorFlags{address: "http://c:4317"}},
	} {
		if err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestADamagedPosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "position")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &Options{stateFile: path}
	if err := o.Run(t.Context(), nil, cli.IOStreams{}); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v", err)
	}
}
