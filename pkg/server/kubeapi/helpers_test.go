package kubeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a journal with a server.
type api struct {
	journal *journal.Journal
	url     string
	http    *http.Client
	// base is the revision before the updates of the test.
	base int64
}

func serve(t *testing.T, opts journal.Options) *api {
	t.Helper()
	return serveWith(t, opts, func(*API) {})
}

func serveWith(t *testing.T, opts journal.Options, change func(*API)) *api {
	t.Helper()
	if opts.Sources == nil {
		opts.Sources = []string{config.FileSource}
	}
	a := &api{journal: journal.New(opts)}
	a.base = a.journal.State().Revision
	server := httptest.NewServer(handler(a.journal, change))
	a.url, a.http = server.URL, server.Client()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return a
}

// serveInMemory serves a journal over connections in memory, for virtual time. The machine stands still after each flush.
func serveInMemory(t *testing.T, standstill time.Duration) *api {
	t.Helper()
	a := &api{journal: journal.New(journal.Options{Sources: []string{config.FileSource}}), url: "http://localhost"}
	serves := handler(a.journal, func(*API) {})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serves.ServeHTTP(slow{w, standstill}, r)
	})}
	l := testutil.NewPipes()
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	a.http = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial() }}}
	t.Cleanup(func() {
		a.http.CloseIdleConnections()
		_ = server.Close()
		serving.Wait()
	})
	return a
}

// handler serves a journal.
func handler(j *journal.Journal, change func(*API)) http.Handler {
	limits := conn.NewLimiter(conn.Limits{ListTimeout: time.Hour}, nil)
	served := New(backend.New(view.NewGate(j, nil), limits, j.Status, nil, nil))
	served.readyTimeout = 50 * time.Millisecond
	change(served)
	mux := http.NewServeMux()
	served.Route(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && Has(r.URL.Path) {
			Write(w, r)
		} else {
			mux.ServeHTTP(w, r)
		}
	})
}

// ready makes the sources seen, without pods, before the base.
func (a *api) ready(sources ...string) {
	for _, source := range sources {
		a.journal.Append(config.PodUpdate{Op: config.ADD, Source: source})
	}
	a.base = a.journal.State().Revision
}

func podOf(source, namespace, name, version string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(source + "-" + name),
			Labels: map[string]string{"version": version}, ResourceVersion: map[bool]string{true: "77"}[source == "api"],
		},
		Spec:   v1.PodSpec{NodeName: "node1", Containers: []v1.Container{{Name: "c"}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// change appends an update of one pod, "namespace/name=version".
func (a *api) change(op config.PodOperation, source, what string) {
	key, version, _ := strings.Cut(what, "=")
	namespace, name, _ := strings.Cut(key, "/")
	pod := podOf(source, namespace, name, version)
	if strings.HasPrefix(version, "mirror") {
		pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	}
	a.journal.Append(config.PodUpdate{Op: op, Source: source, Pods: []*v1.Pod{pod}})
}

// answer is the start of an answer, and its body, which is closed after the test.
type answer struct {
	code         int
	header       http.Header
	uncompressed bool
	body         io.Reader
}

func (a *api) do(t *testing.T, method, path, accept, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return answer{resp.StatusCode, resp.Header, resp.Uncompressed, resp.Body}
}

// request returns the code and the body of the answer.
func (a *api) request(t *testing.T, path, accept string) (code int, body io.Reader) {
	t.Helper()
	got := a.do(t, http.MethodGet, path, accept, "")
	return got.code, got.body
}

func (a *api) get(t *testing.T, path, accept string) (code int, body string) {
	t.Helper()
	return a.do(t, http.MethodGet, path, accept, "").read(t)
}

// read returns the code and the whole body.
func (a answer) read(t *testing.T) (code int, body string) {
	t.Helper()
	data, err := io.ReadAll(a.body)
	if err != nil {
		t.Fatal(err)
	}
	return a.code, string(data)
}

// show returns a pod in short, with revisions relative to the journal's first.
func (a *api) show(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	var revision int64
	if _, err := fmt.Sscan(pod.ResourceVersion, &revision); err != nil {
		t.Fatalf("resourceVersion %q: %v", pod.ResourceVersion, err)
	}
	s := fmt.Sprintf("%s/%s", pod.Namespace, pod.Name)
	if v := pod.Labels["version"]; v != "" {
		s += "=" + v
	}
	return fmt.Sprintf("%s@%d", s, revision-a.base)
}

// list returns a list in short, and its continue token.
func (a *api) list(t *testing.T, path string) (shown, next string) {
	t.Helper()
	code, body := a.get(t, path, "")
	var list v1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || list.Kind != "PodList" {
		t.Fatalf("%s: %d %s: %v", path, code, body, err)
	}
	var pods []string
	for i := range list.Items {
		pods = append(pods, a.show(t, &list.Items[i]))
	}
	return strings.Join(pods, " "), list.Continue
}

// events reads a watch in JSON.
type events struct {
	api     *api
	scanner *bufio.Scanner
}

func (a *api) watch(t *testing.T, query string) *events {
	t.Helper()
	code, body := a.request(t, "/api/v1/pods?watch=true&"+query, "")
	if code != http.StatusOK {
		data, _ := io.ReadAll(body)
		t.Fatalf("%s: %d %s", query, code, data)
	}
	return &events{a, bufio.NewScanner(body)}
}

// expect reads the next events, "TYPE pod". After the end, it reads "".
func (e *events) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := e.next(t); got != w {
			t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func (e *events) next(t *testing.T) string {
	t.Helper()
	if !e.scanner.Scan() {
		return ""
	}
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if err := json.Unmarshal(e.scanner.Bytes(), &event); err != nil {
		t.Fatalf("%v in %s", err, e.scanner.Bytes())
	}
	if event.Type == "ERROR" {
		var status metav1.Status
		if err := json.Unmarshal(event.Object, &status); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("ERROR %d %s", status.Code, status.Reason)
	}
	var pod v1.Pod
	if err := json.Unmarshal(event.Object, &pod); err != nil {
		t.Fatal(err)
	}
	shown := event.Type + " " + e.api.show(t, &pod)
	if pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		shown += " end"
	}
	return shown
}
