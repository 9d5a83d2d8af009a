package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestSIGTERMEndsTheDaemon(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			testutil.Within(t, 2*time.Second, "the end", func() time.Duration { // short: the end is tested
				d := e2e.Start(t, testutil.ShortDir(t))
				d.Mkdir(t)
				d.Put(t, "a", "image")
				e2e.SyncUp(t, d.Watch(t, client.Options{}))
				took, err := d.End(t, signal)
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
				if _, err := os.Lstat(d.Socket); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the socket file is there still: %v", err)
				}
				return took
			})
		})
	}
}

func TestSIGHUPIsHarmless(t *testing.T) {
	t.Parallel()
	d := e2e.Start(t, testutil.ShortDir(t))
	d.Mkdir(t)
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	for range 10 {
		if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	d.Put(t, "a", "image")
	s.Expect(t, "ADD a-node1")
}

func TestTheSecondDaemonRefuses(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	first := e2e.Start(t, dir)
	first.Mkdir(t)
	s := first.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	second := e2e.Start(t, dir)
	if err := second.Cmd.Wait(); err == nil || second.Cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the second ended with %v", err)
	}
	want := "podconfigd: creating the socket " + first.Socket + ": another process is serving it; stop it or choose another path with --socket\n"
	if got := second.Log.String(); got != want {
		t.Errorf("the second said %q, want %q", got, want)
	}
	first.Put(t, "a", "image")
	s.Expect(t, "ADD a-node1")
}

func TestADirectoryThatAppearsLater(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	d := e2e.Start(t, dir)
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	status, err := d.Client.Status(t.Context())
	if err != nil || !status.Ready || !status.Sources[0].File.Absent || status.Sources[0].Degraded {
		t.Errorf("the status of an absent directory: %+v, %v", status, err)
	}
	d.Mkdir(t)
	d.Put(t, "a", "image")
	s.Expect(t, "ADD a-node1")
}

// After a kill, the daemon is another instance, and a subscriber gets a reset.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	d := e2e.Start(t, dir)
	d.Mkdir(t)
	d.Put(t, "a", "image")
	s := d.Watch(t, client.Options{})
	for u := range s.Updates {
		if u.Ready != nil && *u.Ready { // in the bookmark of the state, or a later one
			break
		}
	}
	if _, err := d.End(t, syscall.SIGKILL); err == nil {
		t.Error("it ended well, though it was killed")
	}
	if err := os.Remove(filepath.Join(dir, "manifests", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	d = e2e.Start(t, dir)
	d.Put(t, "b", "image")
	sawReset := false
	for u := range s.Updates {
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
	d := e2e.Start(t, testutil.ShortDir(t))
	d.Mkdir(t)
	d.Put(t, "a", "nginx:1")
	s := d.Watch(t, client.Options{})
	for u := range s.Updates {
		if len(u.Pods) > 0 {
			break
		}
	}
	run := func(args ...string) (string, error) {
		program := e2e.Ctl
		if len(args) == 0 || strings.HasPrefix(args[0], "--") {
			program = e2e.Binary
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), client.SocketEnv+"="+d.Socket)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, test := range []struct{ args, want string }{
		{"get pods", "NAMESPACE   NAME      READY   STATUS    RESTARTS   AGE   SOURCE\ndefault     a-node1   0/1     Pending   0 "},
		{"get pods -o name", "pod/a-node1\n"},
		{"get pods -o wide", "nginx:1\n"},
		{"get pods -n other", "No resources found\n"},
		{"get pods -o yaml a-node1", "kind: Pod\n"},
		{"status", "a.yaml     Accepted   default/a-node1"},
		{"version", "podconfigctl "},
		{"version", "rules of kubelet v1.37.2"},
		{"completion bash", "complete"},
		{"--help", "--pod-manifest-path"},
		{"--version", "podconfigd "},
	} {
		t.Run(test.args, func(t *testing.T) {
			if out, err := run(strings.Fields(test.args)...); err != nil || !strings.Contains(out, test.want) {
				t.Errorf("%s: %v\n%s", test.args, err, out)
			}
		})
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
		{"watch --mode all", `--mode: unknown mode "all"`},
		{"get pods nothing", `pod "nothing" not found`},
		{"status --socket /nowhere", "is podconfigd running, and is this its socket?"},
		{"validate /nowhere", "/nowhere: Rejected: Unreadable"},
	} {
		t.Run(test.args, func(t *testing.T) {
			out, err := run(strings.Fields(test.args)...)
			if err == nil || !strings.Contains(out, test.want) {
				t.Errorf("%s: %v\n%s", test.args, err, out)
			}
		})
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
	d := e2e.Start(t, testutil.ShortDir(t), "--manifest-url", server.URL, "--manifest-url-header", "X-Key:secret", "--http-check-frequency", "10ms")
	d.Mkdir(t)
	d.Put(t, "a", "image")
	s := d.Watch(t, client.Options{Source: "file"})
	for u := range s.Updates {
		if len(u.Pods) > 0 {
			break
		}
	}
	status, err := d.Client.Status(t.Context())
	if err != nil || status.Ready {
		t.Errorf("ready before the URL was read: %+v, %v", status, err)
	}
	s = d.Watch(t, client.Options{Source: "http"})
	serve(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`)
	for u := range s.Updates {
		if len(u.Pods) > 0 {
			if u.Op != v1alpha1.OpAdd || u.Source != "http" || u.Pods[0].Name != "u-node1" {
				t.Errorf("got %s of %s from %s", u.Op, u.Pods[0].Name, u.Source)
			}
			break
		}
	}
	serve("garbage: [")
	for !strings.Contains(d.Log.String(), "Failed to read the manifest URL") {
		<-time.After(10 * time.Millisecond)
	}
	serve(`{"apiVersion":"v1","kind":"PodList","items":[]}`)
	for u := range s.Updates {
		if u.Op == v1alpha1.OpRemove {
			break
		}
	}
	if strings.Contains(d.Log.String(), "secret") {
		t.Error("the log has the header in it")
	}
}
