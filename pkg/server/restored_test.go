package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil/recovered"
)

// serveRestored serves a journal with the pods a of file and x of api from before a restart.
// The source http is unknown.
func serveRestored(t *testing.T) *daemon {
	t.Helper()
	return serveJournal(t, journal.Options{Sources: []string{"api", "file", "http"}, Recovered: recovered.Of(map[string][]*v1.Pod{
		"api": {podWith("x", "1")}, "file": {podWith("a", "1")},
	})})
}

// speak appends the first set of a source, in which nothing has changed.
func (d *daemon) speak(source string) {
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: source, Pods: []*v1.Pod{}})
}

// header returns the header of an answer that names restored sources. The body is not read.
func (d *daemon) header(t *testing.T, path string) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header.Values(v1alpha1.RestoredHeader)
}

// Lists of the Kubernetes API wait for sources that are not known, and answer with what was
// restored. While pods are only restored, a header names their sources.
func TestRestoredPodsHaveAHeader(t *testing.T) {
	d := serveRestored(t)
	lists := []string{"/pods", "/api/v1/pods", "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/a", "/api/v1/pods?watch=true"}
	if got := d.header(t, "/pods"); strings.Join(got, ";") != "api,file" {
		t.Errorf("/pods before http is known: %q", got)
	}
	for _, step := range []struct{ source, want string }{{"http", "api,file"}, {"file", "api"}, {"api", ""}} {
		d.speak(step.source)
		for _, path := range lists {
			if got := d.header(t, path); strings.Join(got, ";") != step.want {
				t.Errorf("%s after the first set of %s: %q, want %q", path, step.source, got, step.want)
			}
			if !strings.Contains(path, "watch") {
				if code, body := d.get(t, path); code != http.StatusOK || !strings.Contains(body, `"name":"a"`) {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
		}
	}
}

// The stream and its gRPC form mark restored pods in the same way.
func TestRestoredPodsInTheStream(t *testing.T) {
	for name, query := range map[string]struct {
		http string
		grpc *podconfigd.WatchRequest
		want string
	}{
		"updates":        {"", &podconfigd.WatchRequest{}, "ADD restored; ADD restored; BOOKMARK api,file"},
		"sets":           {"?mode=snapshot", &podconfigd.WatchRequest{Mode: podconfigd.Mode_MODE_SNAPSHOT}, "SET restored; BOOKMARK api,file"},
		"another source": {"?source=http", &podconfigd.WatchRequest{Selector: &podconfigd.PodSelector{Source: "http"}}, "BOOKMARK api,file"},
	} {
		t.Run(name, func(t *testing.T) {
			d := serveRestored(t)
			stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Watch(t.Context(), query.grpc)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			compareUntil(t, query.http, d.read(t, query.http), stream, func(u *v1alpha1.Update) bool {
				text := string(u.Op)
				if u.Restored {
					text += " restored"
				}
				if u.Op == v1alpha1.OpBookmark {
					text += " " + strings.Join((&journal.Bookmark{Sources: u.Sources}).AllRestored(), ",")
				}
				got = append(got, text)
				return u.InitialSyncComplete
			})
			if strings.Join(got, "; ") != query.want {
				t.Errorf("got %q, want %q", got, query.want)
			}
		})
	}
}

func TestRestoredSourcesInTheStatus(t *testing.T) {
	d := serveRestored(t)
	_, body := d.get(t, "/v1alpha1/status")
	var answer v1alpha1.Status
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	message, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Status(t.Context(), &podconfigd.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).List(t.Context(), &podconfigd.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"api", "file", "http"} {
		want := name != "http"
		if s := answer.Sources[i]; s.Name != name || s.Restored != want || s.Seen {
			t.Errorf("JSON: %+v", s)
		}
		if s := message.GetSources()[i]; s.GetName() != name || s.GetRestored() != want || s.GetSeen() {
			t.Errorf("gRPC: %v", s)
		}
		if s := list.GetBookmark().GetSources()[name]; s.GetRestored() != want || s.GetSeen() {
			t.Errorf("List: %s: %v", name, s)
		}
	}
	if _, metrics := d.get(t, "/metrics"); !strings.Contains(metrics, "\npodconfigd_journal_restored_sources 2\n") {
		t.Error("no podconfigd_journal_restored_sources 2 in the metrics")
	}
}

// The Pods API answers with what was restored, instead of FAILED_PRECONDITION.
func TestRestoredPodsInThePodsAPI(t *testing.T) {
	d := serveRestored(t)
	api := podsv1alpha1.NewPodsClient(d.grpc(t, d.pods))
	_, err := api.ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "waiting for sources: http") {
		t.Errorf("before http is known: %v", err)
	}
	d.speak("http")
	for _, want := range []string{"api,file", "api", ""} {
		calls := map[string]func(context.Context, ...grpc.CallOption) error{
			"ListPods": func(ctx context.Context, opts ...grpc.CallOption) error {
				list, err := api.ListPods(ctx, &podsv1alpha1.ListPodsRequest{}, opts...)
				if len(list.GetPods()) != 2 {
					t.Errorf("%d pods", len(list.GetPods()))
				}
				return err
			},
			"GetPod": func(ctx context.Context, opts ...grpc.CallOption) error {
				_, err := api.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "a"}, opts...)
				return err
			},
		}
		for name, call := range calls {
			var header metadata.MD
			if err := call(t.Context(), grpc.Header(&header)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := strings.Join(header.Get(v1alpha1.RestoredHeader), ";"); got != want {
				t.Errorf("%s: header %q, want %q", name, got, want)
			}
		}
		watch := watchPods(t, d.grpc(t, d.pods))
		watch.expect(t, "ADDED a", "ADDED x", "INITIAL_SYNC_COMPLETE")
		if header, err := watch.stream.Header(); err != nil || strings.Join(header.Get(v1alpha1.RestoredHeader), ";") != want {
			t.Errorf("WatchPods: header %v, want %q: %v", header, want, err)
		}
		if next, _, more := strings.Cut(want, ","); more {
			d.speak("file")
		} else if next != "" {
			d.speak(next)
		}
	}
}
