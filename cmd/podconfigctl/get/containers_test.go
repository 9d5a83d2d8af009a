package get

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// containerDaemon has containers. It answers each watch with the next of its answers. When there is none left, it calls end.
type containerDaemon struct {
	status, list string

	mu      sync.Mutex
	watches []string
	end     context.CancelFunc
	queries []url.Values
}

func (d *containerDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.URL.Path == "/v1alpha1/status" {
		_, _ = io.WriteString(w, d.status)
		return
	}
	query := r.URL.Query()
	d.queries = append(d.queries, query)
	switch {
	case r.URL.Path != "/v1alpha1/containers":
		w.WriteHeader(http.StatusNotFound)
	case !query.Has("watch"):
		_, _ = io.WriteString(w, `{"instance":"i","revision":7,"containers":[`+d.list+`]}`)
	case len(d.watches) == 0:
		d.end()
	default:
		_, _ = io.WriteString(w, d.watches[0])
		d.watches = d.watches[1:]
	}
}

// get runs get containers. It returns the output, and then the notes.
func (d *containerDaemon) get(t *testing.T, flags ...string) (out, notes string) {
	t.Helper()
	server := httptest.NewServer(d)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.end = cancel
	var stdout, stderr bytes.Buffer
	if err := runGet(ctx, server.URL, &stdout, &stderr, append([]string{"containers"}, flags...)...); err != nil {
		t.Errorf("%q: %v", flags, err)
	}
	return stdout.String(), stderr.String()
}

// aContainer is a container of a pod in the namespace default, with more fields.
func aContainer(id, pod, name, fields string) string {
	return fmt.Sprintf(`{"id":%q,"name":%q,"pod":{"namespace":"default","name":%q,"uid":"u","source":"file"}%s}`, id, name, pod, fields)
}

// someContainers are three containers and a sandbox, in the order of their IDs.
var someContainers = strings.Join([]string{
	aContainer("1", "web", "b", `,"state":"exited","exitCode":3`),
	`{"id":"2","name":"c","state":"created","pod":{"namespace":"a","name":"stray","uid":"s"}}`,
	aContainer("3", "web", "", `,"state":"running","sandbox":true`),
	strings.Replace(aContainer("4", "web", "a", `,"state":"running","restarts":2,"pid":4711,"cgroupID":12`), `"source"`, `"owners":[{"kind":"Deployment","name":"web"}],"source"`, 1),
}, ",")

func TestContainerTable(t *testing.T) {
	for flags, want := range map[string]string{
		"": `NAMESPACE   POD     CONTAINER   STATE        RESTARTS   AGE
a           stray   c           created      0          <none>
default     web     a           running      2          <none>
default     web     b           exited (3)   0          <none>
`,
		"-n default -A --no-headers --sandboxes": `a         stray   c           created      0   <none>
default   web     <sandbox>   running      0   <none>
default   web     a           running      2   <none>
default   web     b           exited (3)   0   <none>
`,
		"-n x -o wide": `POD     CONTAINER   STATE        RESTARTS   AGE      PID      CGROUP-ID   ID   SOURCE   OWNER
stray   c           created      0          <none>   <none>   <none>      2    <none>   <none>
web     a           running      2          <none>   4711     12          4    file     deployment/web
web     b           exited (3)   0          <none>   <none>   <none>      1    file     <none>
`,
		"-o name": "container/stray/c\ncontainer/web/a\ncontainer/web/b\n",
	} {
		d := &containerDaemon{status: `{"owners":{}}`, list: someContainers}
		if got, notes := d.get(t, strings.Fields(flags)...); got != want || notes != "" {
			t.Errorf("%s: (-want +got):\n%s%s", flags, cmp.Diff(want, got), notes)
		}
	}
	d := &containerDaemon{status: `{}`, list: someContainers}
	if got, _ := d.get(t, "-o", "wide"); strings.Contains(got, "OWNER") || d.queries[0].Has("owners") {
		t.Errorf("a daemon without owners: %v\n%s", d.queries, got)
	}
}

// JSON and YAML are the object of the daemon, with labels and owners, in the order of the table.
func TestContainersAsObjects(t *testing.T) {
	d := &containerDaemon{status: `{"owners":{}}`, list: someContainers}
	got, _ := d.get(t, "-o", "yaml", "-l", "app=web", "-n", "default", "--field-selector", "metadata.name=web", "--owner", "deployment/web")
	if !strings.HasPrefix(got, "containers:\n- id: \"2\"\n") || strings.Contains(got, "sandbox: true") || !strings.Contains(got, "\ninstance: i\nrevision: 7\n") {
		t.Error(got)
	}
	want := "fieldSelector=metadata.name%3Dweb&labelSelector=app%3Dweb&labels=true&namespace=default&owner=deployment%2Fweb&owners=true"
	if query := d.queries[0].Encode(); query != want {
		t.Errorf("got %s, want %s", query, want)
	}
	d = &containerDaemon{status: `{}`, list: aContainer("1", "w", "x\\u009b2J", "")}
	for _, format := range []string{"json", "yaml", "wide", "name", ""} {
		if got, _ := d.get(t, "-o", format); !printable.Is(got, "\n") || !strings.Contains(got, "009b2J") && !strings.Contains(got, "x9b2J") {
			t.Errorf("%s: %q", format, got)
		}
	}
}

func TestNoContainers(t *testing.T) {
	for flags, want := range map[string]string{"": "No resources found\n", "-o wide": "No resources found\n", "-o name": "", "-o yaml": ""} {
		if _, notes := new(containerDaemon{status: `{}`}).get(t, strings.Fields(flags)...); notes != want {
			t.Errorf("%s: %q", flags, notes)
		}
	}
}

// A watch begins with the list, and resumes. After a reset, it prints what changed in between.
func TestWatchContainers(t *testing.T) {
	t.Parallel()
	line := func(revision int, op, container string) string {
		return fmt.Sprintf(`{"instance":"i","revision":%d,"op":%q,"container":%s}`, revision, op, container)
	}
	for flags, want := range map[string]string{
		"-w --output-watch-events": `EVENT   POD   CONTAINER   STATE     RESTARTS   AGE
ADDED   web   a           running   0          <none>
ADDED   web   b           running   0          <none>
ADDED   web   d           running   0          <none>
ADDED   web   c           created   0          <none>
MODIFIED   web   c           running   0          <none>
DELETED    web   a           exited (0)   0          <none>
DELETED    web   b           running      0          <none>
MODIFIED   web   c           exited (1)   0          <none>
ADDED      web   e           running      0          <none>
`,
		"--watch-only --no-headers": `web   c   created   0   <none>
web   c   running   0   <none>
web   a   exited (0)   0   <none>
web   b   running      0   <none>
web   c   exited (1)   0   <none>
web   e   running      0   <none>
`,
		"--watch-only --output-watch-events -o name": "container/web/c\ncontainer/web/c\ncontainer/web/a\ncontainer/web/b\ncontainer/web/c\ncontainer/web/e\n",
	} {
		running, sandbox := `,"state":"running"`, aContainer("0", "web", "", `,"sandbox":true`)
		d := &containerDaemon{
			status: `{}`, list: aContainer("1", "web", "b", running) + "," + aContainer("2", "web", "a", running) + "," + sandbox + "," + aContainer("5", "web", "d", running),
			watches: []string{
				line(8, "UPDATE", sandbox) + line(9, "ADD", aContainer("3", "web", "c", `,"state":"created"`)) + line(10, "UPDATE", aContainer("3", "web", "c", running)) +
					line(11, "REMOVE", aContainer("2", "web", "a", `,"state":"exited","exitCode":0`)),
				`{"instance":"j","op":"BOOKMARK","reset":true,"message":"m"}` + line(0, "ADD", aContainer("4", "web", "e", running)) + line(0, "ADD", sandbox) +
					line(0, "ADD", aContainer("3", "web", "c", `,"state":"exited","exitCode":1`)) + line(0, "ADD", aContainer("5", "web", "d", running)) +
					`{"instance":"j","op":"BOOKMARK","revision":20,"initialSyncComplete":true}`,
			},
		}
		got, notes := d.get(t, append([]string{"-n", "default"}, strings.Fields(flags)...)...)
		if diff := cmp.Diff(want, got); diff != "" || notes != "podconfigctl: the daemon ended the stream; reconnecting\n" {
			t.Errorf("%s: (-want +got):\n%s%s", flags, diff, notes)
		}
		var since []string
		for _, q := range d.queries[1:] {
			since = append(since, q.Get("instance")+q.Get("since"))
		}
		if got := strings.Join(since, " "); got != "i7 i11 j20" {
			t.Errorf("resumed from %s", got)
		}
	}
}

// Objects of a watch are containers, or events as those of kubectl.
func TestWatchContainersAsObjects(t *testing.T) {
	t.Parallel()
	const pod = `"pod":{"namespace":"default","name":"web","uid":"u","source":"file"}}`
	for flags, want := range map[string]string{
		"-w -o json":                       `{"id":"1","name":"a",` + pod + "\n",
		"-w -o json --output-watch-events": `{"type":"ADDED","object":{"id":"1","name":"a",` + pod + "}\n",
	} {
		d := &containerDaemon{status: `{}`, list: aContainer("1", "web", "a", "")}
		if got, _ := d.get(t, strings.Fields(flags)...); got != want {
			t.Errorf("%s: got %s, want %s", flags, got, want)
		}
	}
}

// What the daemon refuses names the flag. A watch fails too if the list fails.
func TestContainersAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1alpha1/status" {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","message":"parameter \"labelSelector\": wrong"}`)
	}))
	t.Cleanup(server.Close)
	for flags, want := range map[string]string{
		"-l in":            "--selector: wrong",
		"-w -l in":         "--selector: wrong",
		"--owner deploy/a": "--owner: podconfigd does not know the owners of pods: start it with --owners",
		"-o columns":       `--output: unknown format "columns": expected one of wide, name, json, yaml`,
		"web":              `unexpected argument "web"; see "get containers --help"`,
	} {
		err := runGet(t.Context(), server.URL, io.Discard, io.Discard, append([]string{"containers"}, strings.Fields(flags)...)...)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", flags, err, want)
		}
	}
}
