package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// binary is the daemon, as built by "make build".
var binary string

// parallel is how many tests run at a time at least.
const parallel = 4

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if binary, err = testutil.Program(".", "./cmd/podconfigd"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		// Most tests mostly wait for servers, so that more of them run at a time than there are processors.
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
			_ = f.Value.Set(fmt.Sprint(max(parallel, runtime.GOMAXPROCS(0))))
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// daemon is a running podconfigd.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	socket string
	client *client.Client
	log    *testutil.Buffer
}

// start runs podconfigd on the directory "manifests" of dir.
func start(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	args = append([]string{
		"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"), "--hostname-override", "node1",
	}, args...)
	return startCommand(t, dir, exec.Command(binary, args...))
}

// startCommand starts podconfigd with a command that uses the socket "s" of dir.
func startCommand(t *testing.T, dir string, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{dir: dir, socket: filepath.Join(dir, "s"), log: new(testutil.Buffer), cmd: cmd}
	d.client = client.New(d.socket)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", d.log)
		}
	})
	return d
}

func (d *daemon) mkdir(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(d.dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// put puts a manifest of a pod with the name into the directory, in one step.
func (d *daemon) put(t *testing.T, name, image string) {
	t.Helper()
	d.putFile(t, name, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image))
}

// putFile puts a manifest into the directory, in one step.
func (d *daemon) putFile(t *testing.T, name, manifest string) {
	t.Helper()
	temp := filepath.Join(d.dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(d.dir, "manifests", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// stream is a subscriber of the daemon.
type stream struct {
	updates chan *v1alpha1.Update
}

func (d *daemon) watch(t *testing.T, opts client.Options) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{updates: make(chan *v1alpha1.Update, 1000)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for u, err := range d.client.Updates(ctx, opts) {
			if err != nil {
				t.Errorf("the stream: %v", err)
				return
			}
			select {
			case s.updates <- u:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// expect waits for the next updates, "OP pod pod". It passes over bookmarks that are not wanted: they
// also come when only a version of the runtime changed the revision.
func (s *stream) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, line := range want {
		var last *v1alpha1.Update
		for last == nil || last.Op == v1alpha1.OpBookmark && !last.Reset && !strings.HasPrefix(line, string(v1alpha1.OpBookmark)) {
			select {
			case last = <-s.updates:
			case <-time.After(testutil.Patience):
				t.Fatalf("no update for %v, want %q", testutil.Patience, line)
			}
		}
		got := string(last.Op)
		for _, p := range last.Pods {
			got += " " + p.Name
		}
		if last.Reset {
			got += " reset"
		}
		if got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	}
}

// end sends the signal. It returns how long the daemon took to end, and its exit error.
func (d *daemon) end(t *testing.T, signal os.Signal) (took time.Duration, err error) {
	t.Helper()
	begin := time.Now()
	if err := d.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	err = d.cmd.Wait()
	return time.Since(begin), err
}

func TestSIGTERMEndsTheDaemon(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			testutil.Within(t, 2*time.Second, "the end", func() time.Duration {
				d := start(t, testutil.ShortDir(t))
				d.mkdir(t)
				d.put(t, "a", "image")
				syncUp(t, d.watch(t, client.Options{}))
				took, err := d.end(t, signal)
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
				if _, err := os.Lstat(d.socket); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the socket file is there still: %v", err)
				}
				return took
			})
		})
	}
}

func TestSIGHUPIsHarmless(t *testing.T) {
	t.Parallel()
	d := start(t, testutil.ShortDir(t))
	d.mkdir(t)
	s := d.watch(t, client.Options{})
	syncUp(t, s)
	for range 10 {
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	d.put(t, "a", "image")
	s.expect(t, "ADD a-node1")
}

// syncUp reads the start of the stream, until all sources are ready.
func syncUp(t *testing.T, s *stream) {
	t.Helper()
	for {
		select {
		case u := <-s.updates:
			if u.Ready != nil && *u.Ready {
				return
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("not ready after %v", testutil.Patience)
		}
	}
}

func TestTheSecondDaemonRefuses(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	first := start(t, dir)
	first.mkdir(t)
	s := first.watch(t, client.Options{})
	syncUp(t, s)
	second := start(t, dir)
	if err := second.cmd.Wait(); err == nil || second.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the second ended with %v", err)
	}
	want := "podconfigd: creating the socket " + first.socket + ": another process is serving it; stop it or choose another path with --socket\n"
	if got := second.log.String(); got != want {
		t.Errorf("the second said %q, want %q", got, want)
	}
	first.put(t, "a", "image")
	s.expect(t, "ADD a-node1")
}

func TestADirectoryThatAppearsLater(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	d := start(t, dir)
	s := d.watch(t, client.Options{})
	syncUp(t, s)
	status, err := d.client.Status(t.Context())
	if err != nil || !status.Ready || !status.Sources[0].File.Absent || status.Sources[0].Degraded {
		t.Errorf("the status of an absent directory: %+v, %v", status, err)
	}
	d.mkdir(t)
	d.put(t, "a", "image")
	s.expect(t, "ADD a-node1")
}

// After a kill, the daemon is another instance, and a subscriber gets a reset.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	d := start(t, dir)
	d.mkdir(t)
	d.put(t, "a", "image")
	s := d.watch(t, client.Options{})
	for u := range s.updates {
		if u.Ready != nil && *u.Ready { // in the bookmark of the state, or a later one
			break
		}
	}
	if _, err := d.end(t, syscall.SIGKILL); err == nil {
		t.Error("it ended well, though it was killed")
	}
	if err := os.Remove(filepath.Join(dir, "manifests", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	d = start(t, dir)
	d.put(t, "b", "image")
	sawReset := false
	for u := range s.updates {
		sawReset = sawReset || u.Reset
		if len(u.Pods) > 0 && sawReset {
			if u.Op != v1alpha1.OpAdd || u.Pods[0].Name != "b-node1" {
				t.Errorf("after the reset: %s %s", u.Op, u.Pods[0].Name)
			}
			break
		}
	}
}

// The commands give the results in the documentation.
func TestTheCommands(t *testing.T) {
	t.Parallel()
	d := start(t, testutil.ShortDir(t))
	d.mkdir(t)
	d.put(t, "a", "nginx:1")
	s := d.watch(t, client.Options{})
	for u := range s.updates {
		if len(u.Pods) > 0 {
			break
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(os.Environ(), client.SocketEnv+"="+d.socket)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, test := range []struct{ args, want string }{
		{"get pods", "NAMESPACE   NAME      SOURCE   CONTAINERS   SEEN\ndefault     a-node1   file     1 "},
		{"get pods -o name", "pod/a-node1\n"},
		{"get pods -o wide", "nginx:1\n"},
		{"get pods -n other", "No resources found\n"},
		{"get pods -o yaml a-node1", "kind: Pod\n"},
		{"status", "a.yaml     Accepted   default/a-node1"},
		{"version", "podconfigd "},
		{"version", "rules of kubelet v1.37.2"},
		{"completion bash", "complete"},
		{"--help", "--pod-manifest-path"},
	} {
		if out, err := run(strings.Fields(test.args)...); err != nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: %v\n%s", test.args, err, out)
		}
	}
	var status v1alpha1.Status
	out, err := run("status", "-o", "json")
	if err := errors.Join(err, json.Unmarshal([]byte(out), &status)); err != nil || status.NodeName != "node1" || status.Pods != 1 {
		t.Errorf("status -o json: %v\n%s", err, out)
	}
	for _, test := range []struct{ args, want string }{
		{"", "no source of pods: set --pod-manifest-path"},
		{"frobnicate", `unknown command "frobnicate"`},
		{"--pod-manifest-path x --socket-mode 9z", `--socket-mode: "9z" is not a file mode`},
		{"--pod-manifest-path x --metrics-bind-address nonsense", "--metrics-bind-address"},
		{"--pod-manifest-path x --journal-max-updates 0", "--journal-max-updates"},
		{"--socket-mode 9z", "or --kubeconfig\n--socket-mode"},
		{"watch -o table", `--output: unknown format "table": expected one of json, yaml, name`},
		{"watch --mode all", `parameter "mode": unknown mode "all"`},
		{"get pods nothing", `pod "nothing" not found`},
		{"status --socket /nowhere", "is podconfigd running, and is this its socket?"},
		{"validate /nowhere", "/nowhere: Rejected: Unreadable"},
	} {
		out, err := run(strings.Fields(test.args)...)
		if err == nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: %v\n%s", test.args, err, out)
		}
	}
}

// The pods of a URL are added to those of the directory. The stream is not ready until
// the URL was read.
func TestAManifestURL(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("X-Key") != "secret" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	serve := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		body = s
	}
	d := start(t, testutil.ShortDir(t), "--manifest-url", server.URL, "--manifest-url-header", "X-Key:secret", "--http-check-frequency", "10ms")
	d.mkdir(t)
	d.put(t, "a", "image")
	s := d.watch(t, client.Options{Source: "file"})
	for u := range s.updates {
		if len(u.Pods) > 0 {
			break
		}
	}
	status, err := d.client.Status(t.Context())
	if err != nil || status.Ready {
		t.Errorf("ready before the URL was read: %+v, %v", status, err)
	}
	s = d.watch(t, client.Options{Source: "http"})
	serve(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`)
	for u := range s.updates {
		if len(u.Pods) > 0 {
			if u.Op != v1alpha1.OpAdd || u.Source != "http" || u.Pods[0].Name != "u-node1" {
				t.Errorf("got %s of %s from %s", u.Op, u.Pods[0].Name, u.Source)
			}
			break
		}
	}
	serve("garbage: [")
	for !strings.Contains(d.log.String(), "Failed to read the manifest URL") {
		<-time.After(10 * time.Millisecond)
	}
	serve(`{"apiVersion":"v1","kind":"PodList","items":[]}`)
	for u := range s.updates {
		if u.Op == v1alpha1.OpRemove {
			break
		}
	}
	if strings.Contains(d.log.String(), "secret") {
		t.Error("the log has the header in it")
	}
}
