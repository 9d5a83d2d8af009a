package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

// An image or a file name can contain anything. It must not reach the terminal unescaped,
// nor look like another row.
func TestControlCharactersAreEscaped(t *testing.T) {
	var out bytes.Buffer
	if err := printTable(&out, []string{"NAME", "IMAGE"}, [][]string{{"a\tb", "i\x1b[31m\nnext"}, {"приложение", "i:1"}}); err != nil {
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
приложение   i:1
a\nb.yaml: Rejected: NotYAML: what\x1b\u009b
01:02:03.004  ADD           file    default/web                           i\r\n
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
