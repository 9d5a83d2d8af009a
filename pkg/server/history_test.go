package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil/recovered"
)

// journalLog is a log on disk, as a daemon writes it.
type journalLog struct {
	t        *testing.T
	dir      string
	log      *store.Log
	pods     map[types.UID]*journal.Pod
	revision int64
	// now is the time of the next change. Each is a second later.
	now time.Time
}

func newLog(t *testing.T, opts store.Options) *journalLog {
	t.Helper()
	opts.Dir, opts.Node, opts.SegmentBytes = filepath.Join(t.TempDir(), "state"), "node1", cmp.Or(opts.SegmentBytes, 8<<10)
	log, found, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	log.Begin(found.Base)
	go func() { done <- log.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return &journalLog{t, opts.Dir, log, make(map[types.UID]*journal.Pod), found.Revision, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
}

// change appends a change of a pod.
func (l *journalLog) change(op config.PodOperation, source, name, image string) {
	l.t.Helper()
	l.revision++
	l.now = l.now.Add(time.Second)
	var file *config.File
	if source == config.FileSource {
		file = &config.File{Path: "/m/" + name + "\xff.yaml", UID: 1000, Mode: 0o640}
	}
	pod := journal.NewStored(source, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}, nil, l.revision, file)
	if l.pods[pod.Object.UID] = pod; op == config.REMOVE {
		delete(l.pods, pod.Object.UID)
	}
	shown, after := make(chan journal.Commit, 1), recovered.Table(l.revision, maps.Values(l.pods))
	l.log.Append(&journal.Set{First: l.revision, Revision: l.revision, Time: l.now, After: after, Updates: []*journal.Update{
		{First: l.revision, Revision: l.revision, Op: op, Source: source, Pods: []*journal.Pod{pod}},
	}}, func(c journal.Commit) { shown <- c })
	if c := <-shown; !c.Stored {
		l.t.Fatal("a change was not stored")
	}
}

// serve serves the history of the log.
func (l *journalLog) serve(change ...func(*Options)) *daemon {
	l.t.Helper()
	return serveWithLimits(l.t, journal.Options{}, conn.Limits{}, append([]func(*Options){func(o *Options) {
		o.History = func(opts history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] { return history.Read(l.dir, opts) }
	}}, change...)...)
}

func (d *daemon) page(t *testing.T, query string) *v1alpha1.History {
	t.Helper()
	code, body := d.get(t, "/v1alpha1/history?"+query)
	var page v1alpha1.History
	if err := json.Unmarshal([]byte(body), &page); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", query, code, body, err)
	}
	return &page
}

// short returns records as "OP source/name".
func short(records []v1alpha1.HistoryRecord) string {
	var all []string
	for i := range records {
		r := &records[i]
		all = append(all, fmt.Sprintf("%s %s/%s", r.Op, r.Source, r.Name))
	}
	return strings.Join(all, ", ")
}

func TestHistorySelects(t *testing.T) {
	l := newLog(t, store.Options{})
	l.change(config.ADD, "file", "a", "i:1")
	l.change(config.ADD, "http", "b", "i:1")
	l.change(config.UPDATE, "file", "a", "i:2")
	l.change(config.REMOVE, "http", "b", "")
	d := l.serve()
	all := "ADD file/a, ADD http/b, UPDATE file/a, REMOVE http/b"
	for query, want := range map[string]string{
		"":                           all,
		"source=file":                "ADD file/a, UPDATE file/a",
		"source=*":                   all,
		"source=api":                 "",
		"pod=default/b":              "ADD http/b, REMOVE http/b",
		"pod=prod/b":                 "",
		"since=2026-11-22T12:00:03Z": "UPDATE file/a, REMOVE http/b",
		"since=2026-11-22T13:00:04%2B01:00&pods=true": "REMOVE http/b",
		"since=2562047h&limit=0":                      all,
		"since=2100-01-01T00:00:00Z":                  "",
		"limit=10000":                                 all,
		"until=2026-11-22T12:00:02Z":                  "ADD file/a, ADD http/b",
		"until=2562047h":                              "",
		"newest=true":                                 "REMOVE http/b, UPDATE file/a, ADD http/b, ADD file/a",
		"newest=true&source=file":                     "UPDATE file/a, ADD file/a",
		"newest=true&since=2026-11-22T12:00:02Z&until=2026-11-22T12:00:03Z": "UPDATE file/a, ADD http/b",
	} {
		t.Run(query, func(t *testing.T) {
			if page := d.page(t, query); short(page.Records) != want || page.Continue != "" || page.Records == nil {
				t.Errorf("%s: %s, continue %q, want %s", query, short(page.Records), page.Continue, want)
			}
		})
	}
	if code, body := d.get(t, "/v1alpha1/history?source=api"); code != http.StatusOK || body != `{"records":[]}`+"\n" {
		t.Errorf("no records: %d %s", code, body)
	}

	records := d.page(t, "").Records
	update := records[2]
	if update.Time.Format(time.RFC3339) != "2026-11-22T12:00:03Z" || update.Instance != l.log.Status().Instance || update.Revision != l.revision-1 ||
		update.Namespace != "default" || update.UID != "a" || update.Pod != nil || update.Before != nil {
		t.Errorf("%+v", update)
	}
	if diff := gocmp.Diff(&v1alpha1.HistoryFile{Path: "/m/a\uFFFD.yaml", UID: 1000, Mode: "0640"}, update.File); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"spec.containers[c].image: i:1 → i:2"}, update.Changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	records = d.page(t, "pods=true").Records
	if add, update, remove := records[0], records[2], records[3]; add.Before != nil || add.Pod == nil ||
		update.Before.Spec.Containers[0].Image != "i:1" || update.Pod.Spec.Containers[0].Image != "i:2" || update.Pod.Kind != "Pod" ||
		remove.Before == nil || remove.Pod != nil {
		t.Errorf("with pods: %+v", records)
	}
}

func TestInvalidHistoryRequests(t *testing.T) {
	l := newLog(t, store.Options{})
	l.change(config.ADD, "file", "a", "i")
	l.change(config.ADD, "file", "b", "i")
	d := l.serve()
	token := d.page(t, "limit=1").Continue
	of := func(content string) string { return base64.RawURLEncoding.EncodeToString([]byte(content)) }
	for query, want := range map[string]string{
		"since=yesterday":                       `parameter "since": "yesterday" is neither a period nor a time`,
		"since=-1s":                             `parameter "since": -1s is not a period`,
		"since=0":                               `parameter "since": 0 is not a period`,
		"since=2562048h":                        `parameter "since": "2562048h" is neither`,
		"source=git":                            `parameter "source": unknown source "git"`,
		"pod=a":                                 `parameter "pod": "a" is not a pod: expected NAMESPACE/NAME`,
		"pod=a/b/c":                             `parameter "pod": "a/b/c" is not a pod`,
		"pod=/a":                                `parameter "pod": "/a" is not a pod`,
		"pod=A/b":                               `parameter "pod": "A/b" is not a pod: "A":`,
		"pods=2":                                `parameter "pods": expected true or false`,
		"before=1":                              `unknown parameter "before": expected one of since, source, pod, pods, limit, continue`,
		"after=1":                               `parameter "after": requires instance`,
		"instance=i":                            `parameter "after": requires instance`,
		"instance=i&after=-1":                   `parameter "after": "-1" is not a revision`,
		"instance=i&after=1&newest=true":        `parameter "after": not possible with newest`,
		"limit=1&limit=2":                       `parameter "limit": given 2 times`,
		"limit=x&source=y":                      `parameter "source": unknown source "y"`,
		"continue=x":                            `parameter "continue": invalid`,
		"continue=%20":                          `parameter "continue": invalid`,
		"continue=" + of(`{"i":"","r":1}`):      `parameter "continue": invalid`,
		"continue=" + of(`{"i":"x","r":-1}`):    `parameter "continue": invalid`,
		"continue=" + token + "&source=file":    `parameter "continue": it is of a request with other parameters`,
		"continue=" + token + "&since=1000000h": `parameter "continue": it is of a request with other parameters`,
		"continue=" + token + "&pod=default/a&limit=9": `parameter "continue": it is of a request with other parameters`,
	} {
		t.Run(query, func(t *testing.T) {
			code, body := d.get(t, "/v1alpha1/history?"+query)
			var answer metav1.Status
			if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusBadRequest || !strings.Contains(answer.Message, want) {
				t.Errorf("%s: %d %s, want %s", query, code, body, want)
			}
		})
	}
	if page := d.page(t, "limit=5&continue="+token); short(page.Records) != "ADD file/b" {
		t.Errorf("another limit: %s", short(page.Records))
	}
	if code, body := d.get(t, "/v1alpha1/history?continue="+url.QueryEscape(of(`{"i":"other","r":1,"s":"     "}`))); code != http.StatusGone || !strings.Contains(body, "Expired") {
		t.Errorf("another instance: %d %s", code, body)
	}
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for want, request := range map[string]*podconfigd.HistoryRequest{
		"source: ":         {Source: "git"},
		"pod: ":            {Pod: "a"},
		"continue_token: ": {ContinueToken: token},
		"since: ":          {Since: &timestamppb.Timestamp{Nanos: -1}},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := api.History(t.Context(), request); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %s", request, err, want)
			}
		})
	}
}

func TestHistoryOverGRPC(t *testing.T) {
	l := newLog(t, store.Options{})
	l.change(config.ADD, "file", "a", "i:1")
	l.change(config.UPDATE, "file", "a", "i:2")
	d := l.serve(func(o *Options) {
		read := o.History
		o.History = func(opts history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
			return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
				for r, err := range read(opts) {
					if r.UpdateRevision = r.Revision + 1; !yield(r, err) { // as if another pod followed
						return
					}
				}
			}
		}
	})
	page, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).History(t.Context(), &podconfigd.HistoryRequest{Pods: true, Since: timestamppb.New(l.now)})
	if err != nil || len(page.GetRecords()) != 1 {
		t.Fatal(page, err)
	}
	want := d.page(t, "pods=true").Records[1]
	r := page.GetRecords()[0]
	var before, pod v1.Pod
	if err := errors.Join(before.Unmarshal(r.GetBefore()), pod.Unmarshal(r.GetPod())); err != nil {
		t.Fatal(err)
	}
	pod.TypeMeta, before.TypeMeta = want.Pod.TypeMeta, want.Before.TypeMeta
	got := v1alpha1.HistoryRecord{
		Time: new(r.GetTime().AsTime()), Instance: r.GetInstance(), Revision: r.GetRevision(), UpdateRevision: r.GetUpdateRevision(),
		Op: v1alpha1.Op(strings.TrimPrefix(r.GetOp().String(), "OPERATION_")), Source: r.GetSource(),
		Namespace: r.GetNamespace(), Name: r.GetName(), UID: r.GetUid(), Changes: r.GetChanges(), Gap: r.GetGap(), Replaced: r.GetReplaced(),
		File: &v1alpha1.HistoryFile{
			Path: r.GetFile().GetPath(), UID: r.GetFile().GetUid(), GID: r.GetFile().GetGid(), Mode: r.GetFile().GetMode(),
		},
		Before: &before, Pod: &pod,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-HTTP +gRPC):\n%s", diff)
	}
}

// A client that does not see everything sees a gap, and that reading failed. The reasons are texts of
// errors.
func TestHistoryHidesFaults(t *testing.T) {
	var fault error
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) {
		o.Policy = access.NewPolicy([]access.Rule{me(access.Redacted)})
		o.History = func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
			return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
				_ = yield(&v1alpha1.HistoryRecord{Gap: "secret"}, nil) && fault != nil && yield(nil, fault)
			}
		}
	})
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for name, err := range map[string]error{"a gap": nil, "an error": errors.New("secret")} {
		t.Run(name, func(t *testing.T) {
			fault = err
			code, body := d.get(t, "/v1alpha1/history")
			page, err := api.History(t.Context(), new(podconfigd.HistoryRequest))
			for protocol, answer := range map[string]string{"HTTP": body, "gRPC": fmt.Sprint(page, err)} {
				if !strings.Contains(answer, "the access rules hide the") || strings.Contains(answer, "secret") {
					t.Errorf("over %s: %d %s", protocol, code, answer)
				}
			}
		})
	}
}

func TestNoHistory(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	if code, body := d.get(t, "/v1alpha1/history"); code != http.StatusNotFound || !strings.Contains(body, "start podconfigd with --state-dir") {
		t.Errorf("%d %s", code, body)
	}
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	if _, err := api.History(t.Context(), &podconfigd.HistoryRequest{}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("%v", err)
	}
	l := &journalLog{t: t, dir: filepath.Join(t.TempDir(), "away")}
	if code, body := l.serve().get(t, "/v1alpha1/history"); code != http.StatusServiceUnavailable || !strings.Contains(body, "reading the history in "+l.dir) {
		t.Errorf("the directory is away: %d %s", code, body)
	}
}
