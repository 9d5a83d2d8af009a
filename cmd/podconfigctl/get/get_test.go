package get

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// run runs get pods with a server and flags.
func run(ctx context.Context, server string, out io.Writer, flags ...string) error {
	return runGet(ctx, server, out, io.Discard, append([]string{"pods"}, flags...)...)
}

// runGet runs get with a server and arguments.
func runGet(ctx context.Context, server string, out, notes io.Writer, args ...string) error {
	cmd := NewCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(out)
	cmd.SetErr(notes)
	cmd.SetArgs(append(args, "--server", server))
	return cmd.ExecuteContext(ctx)
}

// The table has the columns of kubectl in its order, and then those of podconfigd. It needs no container runtime.
func TestColumns(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web","namespace":"default","uid":"u",
"annotations":{"kubernetes.io/config.source":"file"}},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]},
"status":{"phase":"Running","podIPs":[{"ip":"192.0.2.1"}],"containerStatuses":[{"ready":true,"restartCount":2,"state":{"running":{}}}]}}]}`)
	}))
	t.Cleanup(server.Close)
	for _, test := range []struct {
		flags, want string
	}{
		{"", "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE         SOURCE\ndefault     web    1/1     Running   2          <unknown>   file\n"},
		{"-A -n x", "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE         SOURCE\ndefault     web    1/1     Running   2          <unknown>   file\n"},
		{"-n default", "NAME   READY   STATUS    RESTARTS   AGE         SOURCE\nweb    1/1     Running   2          <unknown>   file\n"},
		{"-n default -o wide", "NAME   READY   STATUS    RESTARTS   AGE         IP          NODE   NOMINATED NODE   READINESS GATES   SOURCE   UID   IMAGES\n" +
			"web    1/1     Running   2          <unknown>   192.0.2.1   n      <none>           <none>            file     u     i\n"},
	} {
		t.Run(test.flags, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(t.Context(), server.URL, &out, strings.Fields(test.flags)...); err != nil || out.String() != test.want {
				t.Errorf("%v\n%s\nwant:\n%s", err, &out, test.want)
			}
		})
	}
}

// The daemon selects by owner.
func TestSelectByOwner(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("owner") != "deployment/web" && r.URL.Path != "/v1alpha1/status" {
			t.Errorf("got %v", r.URL)
		}
		if w.WriteHeader(http.StatusBadRequest); r.URL.Query().Has("watch") {
			t.Error("it watches, although the list was refused")
		}
		_, _ = io.WriteString(w, `{"kind":"Status","message":"start it with --owners"}`)
	}))
	t.Cleanup(server.Close)
	for _, flags := range []string{"--owner deployment/web", "--owner deployment/web --watch"} {
		if err := run(t.Context(), server.URL, io.Discard, strings.Fields(flags)...); err == nil || !strings.Contains(err.Error(), "start it with --owners") {
			t.Errorf("%s: got %v", flags, err)
		}
	}
	if err := run(t.Context(), server.URL, io.Discard, "--owner", "web"); err == nil || !strings.Contains(err.Error(), `--owner: "web" is not an owner`) {
		t.Errorf("got %v", err)
	}
}

// A daemon that does not find owners, or is of a version that does not know them, is not asked for a list or a watch: in one of the
// Kubernetes API, such a version ignores the parameter, and sends all pods.
func TestSelectByOwnerWithoutOwners(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1alpha1/status" {
			t.Errorf("got %v", r.URL)
		}
		_, _ = io.WriteString(w, `{"pods":1}`)
	}))
	t.Cleanup(server.Close)
	for _, flags := range []string{"--owner deployment/web", "--owner deployment/web --watch", "--owner deployment/web --watch-only -o name"} {
		if err := run(t.Context(), server.URL, io.Discard, strings.Fields(flags)...); err == nil || !strings.Contains(err.Error(), "start it with --owners") {
			t.Errorf("%s: got %v", flags, err)
		}
	}
}

// With a daemon that finds owners, the wide table has the top of them as its last column. Pods of one controller share a lookup. A pod
// with the UID of another's controller in its reference does not.
func TestOwners(t *testing.T) {
	lookups := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod := func(name, controller string) string {
			return `{"metadata":{"name":"` + name + `","namespace":"default","uid":"` + name + `"` + controller + `}}`
		}
		const controller = `,"ownerReferences":[{"uid":"set","kind":"ReplicaSet","name":"web-1","controller":true}]`
		switch uid := r.URL.Query().Get("podUID"); {
		case r.URL.Path == "/v1alpha1/status":
			_, _ = io.WriteString(w, `{"owners":{}}`)
		case r.URL.Path == "/pods":
			_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[`+pod("a", controller)+","+pod("b", controller)+","+pod("c", "")+","+pod("d", "")+","+
				pod("e", strings.Replace(controller, "web-1", "forged", 1))+`]}`)
		case uid == "a":
			lookups++
			_, _ = io.WriteString(w, `{"pods":[{"owners":[{"kind":"ReplicaSet","name":"web-1"},{"kind":"Deployment","name":"web"}]}]}`)
		case uid == "e":
			lookups++
			_, _ = io.WriteString(w, `{"pods":[{"owners":[{"kind":"ReplicaSet","name":"forged"}]}]}`)
		case uid == "c":
			lookups++
			_, _ = io.WriteString(w, `{"pods":[{}]}`)
		default:
			lookups++
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	if err := run(t.Context(), server.URL, &out, "-o", "wide"); err != nil || lookups != 4 {
		t.Errorf("%v, %d lookups", err, lookups)
	}
	var last []string
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		last = append(last, fields[len(fields)-1])
	}
	if got := strings.Join(last, " "); got != "OWNER deployment/web deployment/web <none> <unknown> replicaset/forged" {
		t.Errorf("%s\n%s", got, &out)
	}
}

// A list without the pods of a source says so: they may be all that somebody looks for.
func TestGetPodsNamesSourcesThatAreNotSeen(t *testing.T) {
	for name, test := range map[string]struct{ sources, want string }{
		"all seen": {`{"name":"file","seen":true}`, "No resources found\n"},
		"restored": {`{"name":"file","restored":true}`, "No resources found\n"},
		"two not seen": {
			`{"name":"file"},{"name":"file:a","seen":true},{"name":"http"}`,
			"podconfigctl: waiting for sources: file, http; their pods are not in the list\nNo resources found\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/pods" {
					_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
				} else {
					_, _ = io.WriteString(w, `{"sources":[`+test.sources+`]}`)
				}
			}))
			t.Cleanup(server.Close)
			var notes bytes.Buffer
			cmd := NewCommand()
			cmd.SetErr(&notes)
			cmd.SetArgs([]string{"pods", "--server", server.URL})
			if err := cmd.ExecuteContext(t.Context()); err != nil || notes.String() != test.want {
				t.Errorf("%v, %q, want %q", err, &notes, test.want)
			}
		})
	}
}

// An earlier version of the daemon refuses the parameter with which /pods has resourceVersions.
func TestGetPodsFromAnEarlierVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/pods":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Has("resourceVersions"):
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"b","namespace":"default"}},{"metadata":{"name":"a","namespace":"default"}}]}`)
		}
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	if err := run(t.Context(), server.URL, &out, "-o", "name"); err != nil || out.String() != "pod/a\npod/b\n" {
		t.Errorf("%v, %s", err, &out)
	}
}

// Escape sequences in a pod do not reach the terminal from tables of get pods either.
func TestControlCharactersInPods(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web","annotations":{"a":"\u202e\u009b2J\u001b[2J\b\u007f"}},"spec":{"containers":[{"name":"c","image":"i\u009b2J\b\u007f"}]}}]}`)
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	err := run(t.Context(), server.URL, &out, "-o", "wide")
	if err != nil || strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl) || strings.Contains(out.String(), "\u202e") || !strings.Contains(out.String(), `\u009b2J`) {
		t.Errorf("%v, %q", err, &out)
	}
}

// JSON and YAML of get pods are printable. The bare values are not changed where no terminal shows
// them.
func TestControlCharactersInFormats(t *testing.T) {
	const value = "x\x1b[31m\u009b2J\u202e\x7f"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{map[string]any{"metadata": map[string]any{"name": value}}}})
	}))
	t.Cleanup(server.Close)
	for format, want := range map[string]string{
		"json":                               `\u001b[31m\u009b2J\u202e\u007f"`,
		"yaml":                               `name: "x\x1b[31m\u009b2J\u202e\x7f"`,
		"jsonpath-as-json={..metadata.name}": `\u001b[31m\u009b2J\u202e\u007f"`,
		"jsonpath={..metadata.name}":         value,
		"name":                               "pod/" + value + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), server.URL, &out, "-o", format)
			if err != nil || !strings.Contains(out.String(), want) || !strings.HasSuffix(want, value) && format != "name" && !printable.Is(out.String(), "\n") {
				t.Errorf("%s: %v, %q, want %q", format, err, &out, want)
			}
		})
	}
}
