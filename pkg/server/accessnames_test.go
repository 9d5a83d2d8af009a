package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// fileNames are the names of a system whose /etc/passwd may be unreadable.
type fileNames struct{ broken atomic.Bool }

var errNoPasswd = errors.New("open /etc/passwd: too many open files")

func (f *fileNames) User(uint32) (string, error) {
	if f.broken.Load() {
		return "", errNoPasswd
	}
	return "tester", nil
}

func (f *fileNames) Group(uint32) (string, error) { return "", nil }

// tester is a policy for the user of the test, by name. Each view of the second rule makes another
// policy that gives it the same.
func (f *fileNames) tester(other access.Level) *access.Policy {
	return access.NewPolicyWithNames([]access.Rule{
		{Users: []string{"tester"}, View: access.Full}, {Users: []string{"other"}, View: other},
	}, f)
}

// If the name of a client can't be read, a request fails and can be tried again. This is not the
// answer to a client that sees nothing.
func TestRequestsWithoutReadableNames(t *testing.T) {
	names := new(fileNames)
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Policy = names.tester(access.None) })
	d.add("canary", 1)
	names.broken.Store(true)
	for _, path := range pathsOfCanary {
		code, body := d.get(t, path)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, `"reason":"ServiceUnavailable"`) || !strings.Contains(body, errNoPasswd.Error()) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	conn := d.grpc(t, d.socket)
	if _, err := podconfigd.NewPodConfigClient(conn).List(t.Context(), &podconfigd.ListRequest{}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errNoPasswd.Error()) {
		t.Errorf("List: %v", err)
	}
	if _, err := podsv1alpha1.NewPodsClient(conn).ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("ListPods: %v", err)
	}
	if code, body := d.get(t, "/v1alpha1/status"); code != http.StatusOK || !strings.Contains(body, `"pods":0`) {
		t.Errorf("status: %d %s", code, body)
	}
	if _, body := d.get(t, "/metrics"); !strings.Contains(body, "podconfigd_server_access_denials_total 0") {
		t.Error("they are counted as refusals by the rules")
	}
	names.broken.Store(false)
	if code, body := d.get(t, "/pods"); code != http.StatusOK || !strings.Contains(body, `"name":"canary"`) {
		t.Errorf("%d %s", code, body)
	}
}

// If the name of a client can't be read when the rules change, its streams end: they don't get a
// reset to nothing. A client that resumes has lost nothing.
func TestStreamsWithoutReadableNames(t *testing.T) {
	names := new(fileNames)
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Policy = names.tester(access.None) })
	d.add("a", 1)
	stream := d.read(t, "")
	stream.expect(t, v1alpha1.OpAdd, "a")
	at := stream.expect(t, v1alpha1.OpBookmark)
	conn := d.grpc(t, d.socket)
	grpcStream, err := podconfigd.NewPodConfigClient(conn).Watch(t.Context(), &podconfigd.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := podsv1alpha1.NewPodsClient(conn).WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := grpcStream.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	var watches []io.ReadCloser
	for _, kind := range []string{"pods", "namespaces"} {
		resp, err := d.http.Get(fmt.Sprintf("http://localhost/api/v1/%s?watch=true&resourceVersion=%d", kind, at.Revision))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		watches = append(watches, resp.Body)
	}

	names.broken.Store(true)
	d.server.SetPolicy(names.tester(access.Metadata))
	if stream.scanner.Scan() {
		t.Errorf("the stream gets %s", stream.scanner.Bytes())
	}
	if m, err := grpcStream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errNoPasswd.Error()) {
		t.Errorf("Watch: %v, %v", m, err)
	}
	if m, err := pods.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("WatchPods: %v, %v", m, err)
	}
	for _, body := range watches {
		if data, err := io.ReadAll(body); err != nil || len(data) > 0 {
			t.Errorf("a watch gets %s, %v", data, err)
		}
	}
	names.broken.Store(false)
	d.add("b", 1)
	resumed := d.read(t, fmt.Sprintf("?instance=%s&since=%d", at.Instance, at.Revision))
	resumed.expect(t, v1alpha1.OpAdd, "b")
}
