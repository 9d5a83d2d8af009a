package server

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// serveRules serves a journal with access rules.
func serveRules(t *testing.T, rules ...access.Rule) *daemon {
	t.Helper()
	return serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Policy = access.NewPolicy(rules) })
}

// me is a rule for the user of the test.
func me(view access.Level) access.Rule {
	return access.Rule{UIDs: []uint32{uint32(os.Getuid())}, View: view}
}

func notMe(view access.Level) access.Rule {
	return access.Rule{UIDs: []uint32{uint32(os.Getuid()) + 1}, View: view}
}

// The subject of a unix socket is the client process, over HTTP and gRPC.
func TestSubjectOfASocket(t *testing.T) {
	d := serveRules(t, me(access.Full))
	d.add("a", 1)
	if code, body := d.get(t, "/pods"); code != http.StatusOK || !strings.Contains(body, `"name":"a"`) {
		t.Errorf("%d %s", code, body)
	}
	for _, socket := range []string{d.socket, d.pods} {
		response, err := podsv1alpha1.NewPodsClient(d.grpc(t, socket)).ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{})
		if err != nil || len(response.GetPods()) != 1 {
			t.Errorf("%v, %v", response, err)
		}
	}
}

// pathsOfCanary are refused to a client that may not see the pod canary.
var pathsOfCanary = []string{
	"/v1alpha1/updates", "/pods", "/api/v1/pods", "/api/v1/pods?watch=true", "/api/v1/namespaces/default/pods/canary",
	"/v1alpha1/lookup?podUID=canary",
}

// A client to which no rule shows anything is refused.
func TestAClientThatSeesNothing(t *testing.T) {
	d := serveRules(t, notMe(access.Full))
	d.add("canary", 1)
	for _, path := range pathsOfCanary {
		t.Run(path, func(t *testing.T) {
			code, body := d.get(t, path)
			if code != http.StatusForbidden || !strings.Contains(body, `"reason":"Forbidden"`) || !strings.Contains(body, "no access rule shows any to it") {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	conn := d.grpc(t, d.socket)
	_, err := podconfigd.NewPodConfigClient(conn).List(t.Context(), &podconfigd.ListRequest{})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("List: %v", err)
	}
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("WatchPods: %v", err)
	}
	if code, body := d.get(t, "/v1alpha1/status"); code != http.StatusOK || !strings.Contains(body, `"pods":0`) {
		t.Errorf("status: %d %s", code, body)
	}
	if _, body := d.get(t, "/metrics"); !strings.Contains(body, "podconfigd_server_access_denials_total 8") {
		t.Error("the refusals are not counted")
	}
}

// The stream of a redacted pod has no values. A change of one sends nothing.
func TestStreamOfRedactedPods(t *testing.T) {
	d := serveRules(t, me(access.Redacted))
	withEnv := func(op config.PodOperation, value string, label string) {
		p := podWith("a", label)
		p.Spec.Containers = []v1.Container{{Name: "c", Image: "i", Env: []v1.EnvVar{{Name: "E", Value: value}}}}
		d.journal.Append(config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{p}})
	}
	withEnv(config.ADD, "one", "x")
	r := d.read(t, "")
	u := r.expect(t, v1alpha1.OpAdd, "a")
	if e := u.Pods[0].Spec.Containers[0].Env; len(e) != 1 || e[0] != (v1.EnvVar{Name: "E"}) {
		t.Errorf("%v", e)
	}
	r.expect(t, v1alpha1.OpBookmark)
	withEnv(config.UPDATE, "two", "x")
	withEnv(config.UPDATE, "two", "y")
	if u := r.expect(t, v1alpha1.OpUpdate, "a"); u.Pods[0].Labels["app"] != "y" {
		t.Errorf("%v", u.Pods[0].Labels)
	}
}

// Over TLS, the subject is the authenticated user, with HTTP/1.1, HTTP/2 and gRPC. It has no UID:
// the daemon's user is another one.
func TestSubjectOverTLS(t *testing.T) {
	s := serveHTTPS(t, conn.Limits{}, func(o *Options) {
		o.Policy = access.NewPolicy([]access.Rule{
			{AuthenticatedUsers: []string{"all"}, View: access.Redacted}, me(access.Full), {AuthenticatedGroups: []string{"system:authenticated"}, Namespaces: []string{"none"}, View: access.Full},
		})
	})
	p := podWith("a", "x")
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "i", Args: []string{"secret"}}}
	s.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{p}})
	for major := range 2 {
		client := s.client(t, major+1)
		if r := s.do(t, client, http.MethodGet, "/pods", "all"); r.code != http.StatusOK {
			t.Errorf("%d", r.code)
		} else if body := r.text(t); !strings.Contains(body, `"image":"i"`) || strings.Contains(body, "secret") {
			t.Errorf("the user all sees %s", body)
		}
		if r := s.do(t, client, http.MethodGet, "/pods", "pods"); r.code != http.StatusOK || strings.Contains(r.text(t), `"image"`) {
			t.Errorf("the user pods sees pods: %d", r.code)
		}
	}
	conn, ctx := s.grpcConn(t, "all")
	list, err := podconfigd.NewPodConfigClient(conn).List(ctx, &podconfigd.ListRequest{})
	if err != nil || len(list.GetPods()) != 1 || strings.Contains(string(list.GetPods()[0]), "secret") {
		t.Errorf("%v, %v", list, err)
	}
	if _, body := s.get(t, "/pods"); !strings.Contains(body, "secret") {
		t.Errorf("on the socket: %s", body)
	}
}
