package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

// An image or a file name can contain anything. It must not reach the terminal unescaped,
// look like another row, or be reversed or hidden by invisible characters.
func TestControlCharactersAreEscaped(t *testing.T) {
	var out bytes.Buffer
	if err := printTable(&out, []string{"NAME", "IMAGE"}, [][]string{{"a\tb", "i\x1b[31m\nnext"}, {"приложение", "i:1\u202e\u200b\ufeff"}}); err != nil {
		t.Fatal(err)
	}
	v := file.Verdict{File: "a\nb.yaml"}
	v.State, v.Reason, v.Message = v1alpha1.ManifestRejected, "NotYAML", "what\x1b\u009b"
	if err := printVerdicts(&out, "", []file.Verdict{v}); err != nil {
		t.Fatal(err)
	}
	table := newTablePrinter(&out)
	table.headed = true
	table.now = func() time.Time { return time.Date(2026, 11, 21, 1, 2, 3, 4e6, time.Local) }
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Image: "i\r\n"}}}}
	pod.Namespace, pod.Name = "default", "web"
	if err := table.print(&v1alpha1.Update{Op: v1alpha1.OpAdd, Source: "file", Pods: []*v1.Pod{pod}}); err != nil {
		t.Fatal(err)
	}
	want := `NAME         IMAGE
a\tb         i\x1b[31m\nnext
приложение   i:1\u202e\u200b\ufeff
a\nb.yaml: Rejected: NotYAML: what\x1b\u009b
01:02:03.004  ADD           file    default/web                           i\r\n
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Escape sequences in a pod do not reach the terminal from tables of get pods either.
func TestControlCharactersInPods(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"web","annotations":{"a":"\u202e\u009b2J\u001b[2J\b\u007f"}},"spec":{"containers":[{"name":"c","image":"i\u009b2J\b\u007f"}]}}]}`)
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"get", "pods", "--server", server.URL, "-o", "wide"})
	err := root.ExecuteContext(t.Context())
	if err != nil || strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl) || strings.Contains(out.String(), "\u202e") || !strings.Contains(out.String(), `\u009b2J`) {
		t.Errorf("%v, %q", err, &out)
	}
}

// JSON and YAML have the value unchanged, in characters that are printable.
func TestControlCharactersInObjects(t *testing.T) {
	const name, escaped = "a\n\x1b[31m\u009b2J\u202e\U000e0001\x7f.yaml", `\u009b2J`
	update := &v1alpha1.Update{Op: v1alpha1.OpAdd, Source: name}
	record := &v1alpha1.HistoryRecord{Source: name}
	printers := map[string]func(w io.Writer, output string) error{
		"status": func(w io.Writer, output string) error {
			return printObject(w, output, v1alpha1.Lookup{Pods: []v1alpha1.LookupPod{{Source: name}}})
		},
		"watch": func(w io.Writer, output string) error {
			p := newPrinter(output, w)
			return p.print(update)
		},
		"history": func(w io.Writer, output string) error {
			p := newHistoryPrinter(output, false, w)
			return p.print(record)
		},
		"lookup": func(w io.Writer, output string) error {
			return printLookup(w, output, &v1alpha1.Lookup{Pods: []v1alpha1.LookupPod{{Source: name}}})
		},
	}
	for command, write := range printers {
		for _, output := range []string{"json", "yaml"} {
			var out bytes.Buffer
			if err := write(&out, output); err != nil {
				t.Fatal(err)
			}
			if !printable.Is(out.String(), "\n") || !strings.Contains(out.String(), escaped) {
				t.Errorf("%s -o %s: %q", command, output, &out)
			}
			object := make(map[string]any)
			if err := yaml.Unmarshal(out.Bytes(), &object); output == "yaml" && err != nil {
				t.Error(err)
			} else if err := json.Unmarshal(out.Bytes(), &object); output == "json" && err != nil {
				t.Error(err)
			}
			if pods, ok := object["pods"].([]any); ok {
				object, _ = pods[0].(map[string]any)
			}
			if object["source"] != name {
				t.Errorf("%s -o %s: the value became %q", command, output, object["source"])
			}
		}
	}
}

// JSON and YAML of get pods are printable. The bare values are not changed where no terminal shows
// them.
func TestControlCharactersInFormats(t *testing.T) {
	const value = "x\x1b[31m\u009b2J\u202e\x7f"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []any{map[string]any{"metadata": map[string]any{"name": value}}}})
	}))
	t.Cleanup(server.Close)
	for format, want := range map[string]string{
		"json":                               `\u001b[31m\u009b2J\u202e\u007f"`,
		"yaml":                               `name: "x\x1b[31m\u009b2J\u202e\x7f"`,
		"jsonpath-as-json={..metadata.name}": `\u001b[31m\u009b2J\u202e\u007f"`,
		"jsonpath={..metadata.name}":         value,
		"name":                               "pod/" + value + "\n",
	} {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetArgs([]string{"get", "pods", "--server", server.URL, "-o", format})
		err := root.ExecuteContext(t.Context())
		if err != nil || !strings.Contains(out.String(), want) || !strings.HasSuffix(want, value) && format != "name" && !printable.Is(out.String(), "\n") {
			t.Errorf("%s: %v, %q, want %q", format, err, &out, want)
		}
	}
}
