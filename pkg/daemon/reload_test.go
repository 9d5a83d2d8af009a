package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"

	configapi "github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// reloadable is a daemon that runs, and a subscriber of its stream.
type reloadable struct {
	*daemon.Daemon
	t      *testing.T
	dir    string
	config daemon.Config
	stop   func() error
	lines  <-chan string
	// unready is whether a source will not be seen.
	unready bool
	// prepare is called before the daemon runs, if not nil.
	prepare func()
}

// write writes the manifest of a pod, whole.
func (r *reloadable) write(path, image string) {
	r.t.Helper()
	path = filepath.Join(r.dir, path)
	name := strings.TrimSuffix(filepath.Base(path), ".yaml")
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image)
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)) // no source reads it
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(temp, []byte(manifest), 0o600), os.Rename(temp, path)); err != nil {
		r.t.Fatal(err)
	}
}

// configured returns a configuration with the sources file: m and file:NAME: NAME.
func configured(t *testing.T, names ...string) *reloadable {
	t.Helper()
	r := &reloadable{t: t, dir: t.TempDir(), config: daemon.Config{}}
	r.config.HostnameOverride, r.config.Socket = "n", new(filepath.Join(r.dir, "s"))
	r.config.StaticPodPath = filepath.Join(r.dir, "m")
	for _, name := range append(names, "m") {
		r.write(name+"/"+name+"1.yaml", "1")
	}
	r.config.FileSources = r.named(names...)
	return r
}

func (r *reloadable) named(names ...string) (sources []configapi.FileSource) {
	for _, name := range names {
		sources = append(sources, configapi.FileSource{Name: name, Path: filepath.Join(r.dir, name)})
	}
	return sources
}

// run starts the daemon and a subscriber.
func (r *reloadable) run() {
	r.t.Helper()
	var err error
	if r.Daemon, err = daemon.New(r.config); err != nil {
		r.t.Fatal(err)
	}
	if r.prepare != nil {
		r.prepare()
	}
	ctx, cancel := context.WithCancel(klog.NewContext(r.t.Context(), klog.Logger{}))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	r.t.Cleanup(func() { _ = r.stop() })
	lines := make(chan string, 1000)
	r.lines = lines
	ready := make(chan struct{})
	go follow(ctx, *r.config.Socket, r.unready, lines, ready)
	<-ready
}

// follow writes the updates to lines. Bookmarks that change nothing are left out.
func follow(ctx context.Context, socket string, unready bool, lines chan<- string, ready chan<- struct{}) {
	last := ""
	for u, err := range client.New(socket).Updates(ctx, client.Options{}) {
		if err != nil {
			if ctx.Err() == nil {
				lines <- err.Error()
			}
			return
		}
		line := string(u.Op) + " " + u.Source
		for _, pod := range u.Pods {
			line += " " + pod.Name + "=" + pod.Spec.Containers[0].Image
		}
		if u.Op == v1alpha1.OpBookmark {
			if line = bookmark(u); line == last {
				continue
			}
			last = line
		}
		if ready == nil {
			select {
			case lines <- line:
			case <-ctx.Done():
			}
		} else if u.Ready != nil && (*u.Ready || unready && u.InitialSyncComplete) {
			close(ready)
			ready = nil
		}
	}
}

// bookmark returns the sources that were seen, and in brackets those that were not.
func bookmark(u *v1alpha1.Update) string {
	var names []string
	for name, s := range u.Sources {
		if !s.Seen {
			name = "(" + name + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("BOOKMARK %t %s", *u.Ready, strings.Join(names, " "))
}

func (r *reloadable) expect(want ...string) {
	r.t.Helper()
	for _, line := range want {
		select {
		case got := <-r.lines:
			if got != line {
				r.t.Fatalf("got %q, want %q", got, line)
			}
		case <-time.After(testutil.Patience):
			r.t.Fatalf("no %q", line)
		}
	}
}

// reload reloads the configuration, and expects these fields to change.
func (r *reloadable) reload(want ...string) {
	r.t.Helper()
	got, err := r.Reload(r.t.Context(), &r.config)
	if diff := cmp.Diff(daemon.Reloaded{Changed: want}, got); err != nil || diff != "" {
		r.t.Fatalf("%v %s", err, diff)
	}
}

func (r *reloadable) get(path string) string {
	r.t.Helper()
	c := http.Client{Transport: client.New(*r.config.Socket)}
	resp, err := c.Get("http://localhost" + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(body)
}

func TestReloadAddsAndRemovesSources(t *testing.T) {
	r := configured(t, "a", "b")
	r.run()
	r.write("c/c1.yaml", "1")
	r.config.FileSources = r.named("b", "c")
	r.reload("fileSources")
	// The removed pods have the name of their source, and each bookmark has the sources that
	// there are.
	r.expect("BOOKMARK false (file:c) file file:a file:b", "REMOVE file:a a1-n=1", "BOOKMARK false (file:c) file file:b", "ADD file:c c1-n=1", "BOOKMARK true file file:b file:c")
	if metrics := r.get("/metrics"); strings.Contains(metrics, `source="file:a"`) || !strings.Contains(metrics, `podconfigd_file_source_degraded{source="file:c"} 0`) {
		t.Error("the metrics have file:a, or do not have file:c")
	}
	if status := r.get("/v1alpha1/status"); strings.Contains(status, `"file:a"`) || !strings.Contains(status, `"file:c"`) {
		t.Errorf("status: %s", status)
	}
	r.write("b/b2.yaml", "1")
	r.expect("ADD file:b b2-n=1")
	r.write("a/a2.yaml", "1") // nobody reads it
	r.write("c/c2.yaml", "1")
	r.expect("ADD file:c c2-n=1")

	// The source without a name goes, and comes back.
	r.config.StaticPodPath = ""
	r.reload("staticPodPath")
	r.expect("REMOVE file m1-n=1", "BOOKMARK true file:b file:c")
	r.config.StaticPodPath = filepath.Join(r.dir, "m")
	r.reload("staticPodPath")
	r.expect("BOOKMARK false (file) file:b file:c", "ADD file m1-n=1", "BOOKMARK true file file:b file:c")
	r.reload() // nothing changed
}

// The pods of the old path stay until the first set of the new one.
func TestReloadChangesAPath(t *testing.T) {
	r := configured(t, "a")
	r.run()
	r.write("new/a1.yaml", "2")
	r.write("new/x.yaml", "1")
	r.config.FileSources = []configapi.FileSource{{Name: "a", Path: filepath.Join(r.dir, "new")}}
	r.reload("fileSources")
	r.expect("REMOVE file:a a1-n=1", "ADD file:a a1-n=2 x-n=1")
}

// A source that starts again with another period keeps what it holds: the last good pod of a
// manifest that is bad now.
func TestReloadKeepsTheLastGoodPods(t *testing.T) {
	r := configured(t, "a")
	r.run()
	if err := os.WriteFile(filepath.Join(r.dir, "a", "a1.yaml"), []byte("kind: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	r.write("a/a2.yaml", "1")
	r.expect("ADD file:a a2-n=1")
	r.config.FileCheckFrequency = every(time.Hour)
	r.reload("fileCheckFrequency")
	r.write("a/a3.yaml", "1")
	r.expect("ADD file:a a3-n=1")
	if status := r.get("/v1alpha1/status"); !strings.Contains(status, `"state":"Held"`) {
		t.Errorf("status: %s", status)
	}
}

// The same for a URL. A source that is not reached is added, and does not make the pods of the
// others unknown.
func TestReloadURLs(t *testing.T) {
	var mu sync.Mutex
	answer := `{"apiVersion":"v1","kind":"PodList","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"u1"},"spec":{"containers":[{"name":"c","image":"1"}]}}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	r := configured(t)
	r.run()
	r.config.HTTPSources = []configapi.HTTPSource{{Name: "u", URL: server.URL}, {Name: "v", URL: "http://127.0.0.1:1/"}}
	r.reload("httpSources")
	r.expect("BOOKMARK false (http:u) file", "BOOKMARK false (http:u) (http:v) file", "ADD http:u u1-n=1")
	if ready := r.get("/readyz"); !strings.Contains(ready, "waiting for sources: http:v") {
		t.Errorf("ready: %s", ready)
	}
	if pods := r.get("/api/v1/pods"); !strings.Contains(pods, `"u1-n"`) {
		t.Errorf("pods: %s", pods)
	}
	mu.Lock()
	answer = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"u1"}}`
	mu.Unlock()
	r.config.HTTPSources = r.config.HTTPSources[:1]
	r.config.HTTPCheckFrequency = every(time.Hour)
	r.reload("httpSources", "httpCheckFrequency")
	r.expect("BOOKMARK true file http:u")
	r.write("m/m2.yaml", "1") // the invalid pod removed nothing
	r.expect("ADD file m2-n=1")
	if ready := r.get("/readyz"); ready != "ok" {
		t.Errorf("ready: %s", ready)
	}
}

func TestReloadChecksFirst(t *testing.T) {
	r := configured(t, "a")
	r.run()
	bad := r.config
	bad.FileSources, bad.SyncFrequency, bad.MaxSubscribers = r.named("a", "a"), every(0), new(int32(1))
	if _, err := r.Reload(t.Context(), &bad); err == nil || !strings.Contains(err.Error(), "--sync-frequency") || !strings.Contains(err.Error(), "file:a") {
		t.Errorf("got %v", err)
	}
	restart := r.config
	restart.HostnameOverride, restart.Socket, restart.Listen, restart.Authentication.Anonymous.Enabled = "other", new("other"), []string{"unix:///other"}, true
	restart.SyncFrequency, restart.RemovalBrake = every(time.Hour), new(intstr.FromInt32(1))
	restart.MaxSubscribers, restart.JournalMaxBytes, restart.PLEGRelistPeriod = new(int32(1)), new(int64(1000)), every(2*time.Second)
	got, err := r.Reload(t.Context(), &restart)
	want := daemon.Reloaded{
		Changed:     []string{"removalBrake", "plegRelistPeriod", "syncFrequency", "maxSubscribers", "journalMaxBytes"},
		NeedRestart: []string{"hostnameOverride", "socket", "listen", "authentication.anonymous.enabled"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	// The limit counts at once: there is one subscriber already.
	if answer := r.get("/v1alpha1/updates"); !strings.Contains(answer, "too many subscribers: there are 1") {
		t.Errorf("a second subscriber: %s", answer)
	}
	// The next reload names the fields that need a restart again.
	got, err = r.Reload(t.Context(), &restart)
	want.Changed = nil
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("again: %v %s", err, diff)
	}
}

// What is left without the fields that need a restart must be valid too. Otherwise the daemon
// would run without a source.
func TestReloadChecksWhatIsLeft(t *testing.T) {
	r := configured(t)
	r.run()
	api := r.config
	api.StaticPodPath, api.Kubeconfig = "", "kubeconfig"
	want := "the changes need a restart, because they depend on kubeconfig: no source of pods"
	if got, err := r.Reload(t.Context(), &api); err == nil || !strings.HasPrefix(err.Error(), want) || len(got.Changed) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	r.write("m/m2.yaml", "1")
	r.expect("ADD file m2-n=1")
}

// The log forgets a removed source. When it comes back, also after a restart, it is new.
func TestReloadWithAStateDirectory(t *testing.T) {
	r := configured(t, "a", "b")
	r.config.StateDir = filepath.Join(r.dir, "state")
	r.run()
	r.config.FileSources = r.named("b")
	r.reload("fileSources")
	r.expect("REMOVE file:a a1-n=1", "BOOKMARK true file file:b")
	_ = r.stop()
	r.run()
	if status := r.get("/v1alpha1/status"); strings.Contains(status, "file:a") {
		t.Errorf("status: %s", status)
	}
	r.config.FileSources = r.named("a", "b")
	r.reload("fileSources")
	r.expect("BOOKMARK false (file:a) file file:b", "ADD file:a a1-n=1", "BOOKMARK true file file:a file:b")
	if history := r.get("/v1alpha1/history?source=file:a"); strings.Count(history, `"op":"REMOVE"`) != 1 || strings.Count(history, `"op":"ADD"`) != 2 {
		t.Errorf("history: %s", history)
	}
}

// A source can be removed before it was seen. Its restored pods are removed too.
func TestReloadRemovesRestoredPods(t *testing.T) {
	const answer = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"u1"},"spec":{"containers":[{"name":"c","image":"1"}]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	r := configured(t)
	r.config.StateDir = filepath.Join(r.dir, "state")
	r.config.HTTPSources = []configapi.HTTPSource{{Name: "u", URL: server.URL}}
	r.run()
	_ = r.stop()
	server.Close()
	r.unready = true
	r.run()
	r.config.HTTPSources = nil
	if got, err := r.Reload(t.Context(), &r.config); err != nil || len(got.Changed) != 1 {
		t.Fatal(got, err)
	}
	for { // the first set of the file source may come before or after
		select {
		case line := <-r.lines:
			if line == "REMOVE http:u u1-n=1" {
				return
			}
		case <-time.After(testutil.Patience):
			t.Fatal("the restored pod was not removed")
		}
	}
}

func TestReloadBeforeAndAfterRun(t *testing.T) {
	r := configured(t, "a")
	var err error
	if r.Daemon, err = daemon.New(r.config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Reload(ctx, &r.config); !errors.Is(err, context.Canceled) {
		t.Errorf("before Run: %v", err)
	}
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if _, err := r.Reload(t.Context(), &r.config); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("after Run: %v", err)
	}
}
