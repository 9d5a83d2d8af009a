package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configapi "github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const podsOfTwo = `{"apiVersion":"v1","kind":"PodList","items":[
	{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}},
	{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`

// running is a daemon with a state directory whose pods come over HTTP.
type running struct {
	*http.Client
	daemon *daemon.Daemon
	config daemon.Config
	stop   func()
}

func start(t *testing.T, dir, url string, rules ...configapi.AccessRule) *running {
	t.Helper()
	config := daemon.Config{}
	config.StaticPodURL, config.Socket, config.StateDir = url, new(filepath.Join(dir, "s")), filepath.Join(dir, "state")
	config.HostnameOverride, config.Access = "node1", rules
	d, err := daemon.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", *config.Socket)
	}}
	r := &running{Client: &http.Client{Transport: transport}, daemon: d, config: config, stop: func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}}
	return r
}

// get returns the body of the answer, of which the caller may read a part.
func (r *running) get(t *testing.T, path string) io.Reader {
	t.Helper()
	for {
		response, err := r.Get("http://podconfigd" + path)
		if err != nil { // the socket is not there yet
			continue
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.Body
	}
}

// list returns the names of the pods and the revision of the list.
func (r *running) list(t *testing.T) (names string, revision string) {
	t.Helper()
	data, err := io.ReadAll(r.get(t, "/api/v1/pods"))
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct{ Metadata struct{ Name string } }
	}
	if err = errors.Join(err, json.Unmarshal(data, &list)); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	for _, item := range list.Items {
		names += item.Metadata.Name + " "
	}
	return names, list.Metadata.ResourceVersion
}

func viewOf(namespace string) configapi.AccessRule {
	return configapi.AccessRule{Namespaces: []string{namespace}, View: "full"}
}

// A client that saw pods by earlier rules does not resume, also if the daemon was restarted
// with the present rules twice since.
func TestResumeAfterTwoRestarts(t *testing.T) {
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, podsOfTwo)
	}))
	defer source.Close()
	dir := t.TempDir()
	first := start(t, dir, source.URL, viewOf("a"))
	names, revision := first.list(t)
	first.stop()
	if names != "a-node1 " {
		t.Fatalf("the first run shows %q", names)
	}
	second := start(t, dir, source.URL, viewOf("b"))
	second.list(t)
	second.stop()
	last := start(t, dir, source.URL, viewOf("b"))
	defer last.stop()
	line, err := bufio.NewReader(last.get(t, "/v1alpha1/updates?since="+revision)).ReadString('\n')
	if err != nil || !strings.Contains(line, `"reset":true`) {
		t.Errorf("a stream of revision %s continues: %v %s", revision, err, line)
	}
}

// The same applies to rules that were replaced while the daemon ran, before its restart.
func TestResumeAfterAReloadAndARestart(t *testing.T) {
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, podsOfTwo)
	}))
	defer source.Close()
	dir := t.TempDir()
	first := start(t, dir, source.URL, viewOf("a"))
	_, before := first.list(t)
	next := first.config
	next.Access = []configapi.AccessRule{viewOf("b")}
	if _, err := first.daemon.Reload(t.Context(), &next); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "state", "access-rules"))
	if err != nil {
		t.Fatal(err)
	}
	_, until, _ := strings.Cut(strings.TrimSpace(string(data)), " ") // the last revision by the rules before
	var names, after string
	testutil.Until(t, "the next revision is stored", func() bool {
		names, after = first.list(t)
		return after > until
	})
	first.stop()
	if names != "b-node1 " {
		t.Fatalf("after the reload, %q", names)
	}
	last := start(t, dir, source.URL, viewOf("b"))
	defer last.stop()
	for name, test := range map[string]struct {
		since string
		reset bool
	}{"before the reload": {before, true}, "after the reload": {after, false}} {
		t.Run(name, func(t *testing.T) {
			line, err := bufio.NewReader(last.get(t, "/v1alpha1/updates?since="+test.since)).ReadString('\n')
			if err != nil || strings.Contains(line, `"reset":true`) != test.reset {
				t.Errorf("since %s: %v %s, want a reset: %v", test.since, err, line, test.reset)
			}
		})
	}
}
