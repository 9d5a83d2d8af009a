package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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
	for _, format := range []string{"wide", "custom-columns=A:.metadata.annotations.a"} {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetArgs([]string{"get", "pods", "--server", server.URL, "-o", format})
		err := root.ExecuteContext(t.Context())
		if err != nil || strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl) || strings.Contains(out.String(), "\u202e") || !strings.Contains(out.String(), `\u009b2J`) {
			t.Errorf("%s: %v, %q", format, err, &out)
		}
	}
}
