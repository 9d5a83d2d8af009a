package history

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
)

func historyPod(image string) *v1.Pod {
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "1",
			Annotations: map[string]string{"kubernetes.io/config.hash": image, "kubernetes.io/config.source": "file"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image, Args: []string{"\x1b[31m"}}}},
	}
}

// historyOf are a change of each kind.
func historyOf() iter.Seq2[*v1alpha1.HistoryRecord, error] {
	at := time.Date(2026, 11, 22, 1, 2, 3, 4, time.Local)
	root := &v1alpha1.HistoryFile{Path: "/m/a\x1b[31m\n.yaml", Mode: "0640"}
	other := &v1alpha1.HistoryFile{Path: "/m/web.yaml", UID: 3999999999, GID: 3999999998, Mode: "0666"}
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		for _, r := range []*v1alpha1.HistoryRecord{
			{Time: &at, Op: v1alpha1.OpAdd, Source: "file", Namespace: "default", Name: "web", File: root, Pod: historyPod("i:1")},
			{Time: &at, Op: v1alpha1.OpRemove, Source: "file", Namespace: "default", Name: "web", File: root, Replaced: true, Before: historyPod("i:1")},
			{
				Time: &at, Op: v1alpha1.OpAdd, Source: "file", Namespace: "default", Name: "web", File: other,
				Changes: []string{"spec.containers[c].image: i:1 → i:2"}, Before: historyPod("i:1"), Pod: historyPod("i:2"),
			},
			{Time: &at, Op: v1alpha1.OpUpdate, Source: "api", Namespace: "default", Name: "db", Changes: []string{"a", "b", "c", "d"}},
			{Time: &at, Op: v1alpha1.OpAdd, Source: "http"},
			{Gap: "journal-0000000001.log: damaged"},
		} {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func printed(t *testing.T, output string, withDiff bool) string {
	t.Helper()
	var out, notes bytes.Buffer
	if err := printHistory(newHistoryPrinter(output, withDiff, &out), (&Options{output: output}).lines(historyOf(), false), &notes); err != nil || notes.Len() > 0 {
		t.Fatal(err, &notes)
	}
	return out.String()
}

func TestTheTableOfHistory(t *testing.T) {
	want := `TIME                  OP       SOURCE   POD           FILE                  OWNER                   MODE   CHANGED
2026-11-22 01:02:03   ADD      file     default/web   /m/a\x1b[31m\n.yaml   root:root               0640
2026-11-22 01:02:03   ADD      file     default/web   /m/web.yaml           3999999999:3999999998   0666   recreated: spec.containers[c].image: i:1 → i:2
2026-11-22 01:02:03   UPDATE   api      default/db    -                     -                       -      a; b; c; and 1 more
2026-11-22 01:02:03   ADD      http     -             -                     -                       -      first set, nothing changed
-                     GAP      -        -             -                     -                       -      journal-0000000001.log: damaged
`
	if diff := cmp.Diff(want, printed(t, "", false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheDiffsOfHistory(t *testing.T) {
	want := `2026-11-22 01:02:03  ADD  file  default/web  /m/a\x1b[31m\n.yaml  root:root  0640
--- /dev/null
+++ default/web
@@ -0,0 +1,14 @@
+apiVersion: v1
+kind: Pod
+metadata:
+  name: web
+  namespace: default
+  uid: "1"
+spec:
+  containers:
+  - args:
+    - "\e[31m"
+    image: i:1
+    name: c
+    resources: {}
+status: {}
2026-11-22 01:02:03  ADD  file  default/web  /m/web.yaml  3999999999:3999999998  0666
--- default/web
+++ default/web
@@ -7,7 +7,7 @@
   containers:
   - args:
     - "\e[31m"
-    image: i:1
+    image: i:2
     name: c
     resources: {}
 status: {}
2026-11-22 01:02:03  UPDATE  api  default/db  -  -  -
2026-11-22 01:02:03  ADD  http  -  -  -  -
-  GAP  journal-0000000001.log: damaged
`
	if diff := cmp.Diff(want, printed(t, "", true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHistoryAsObjects(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(printed(t, "json", true)), "\n")
	if len(lines) != 6 || !strings.Contains(lines[2], `"image":"i:2"`) || !strings.Contains(lines[2], `"uid":3999999999`) || lines[5] != `{"gap":"journal-0000000001.log: damaged"}` {
		t.Errorf("%d lines: %s", len(lines), lines)
	}
	if out := printed(t, "yaml", false); strings.Count(out, "---\n") != 6 || !strings.Contains(out, `mode: "0640"`) {
		t.Error(out)
	}
}

// If no daemon runs, the directory of the packages is read.
func TestHistoryWithoutADaemon(t *testing.T) {
	dir := t.TempDir()
	opts := Options{fallback: filepath.Join(dir, "state")}
	c := client.New(filepath.Join(dir, "s"))
	read := func() (string, error) {
		var notes bytes.Buffer
		err := opts.Run(t.Context(), c, cli.IOStreams{Out: io.Discard, ErrOut: &notes})
		return notes.String(), err
	}
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "is podconfigd running") || !strings.Contains(err.Error(), "set --state-dir") {
		t.Error(err)
	}
	if err := os.Mkdir(opts.fallback, 0o700); err != nil {
		t.Fatal(err)
	}
	if notes, err := read(); err != nil || !strings.Contains(notes, "; reading "+opts.fallback+"\nNo changes found\n") {
		t.Errorf("%q, %v", notes, err)
	}
	// The directory of this machine has nothing to do with the daemon of another one.
	local, fallback := c, opts.fallback
	c, _ = client.NewForConfig(client.Config{Server: "http://127.0.0.1:1"})
	opts.fallback = ""
	if notes, err := read(); err == nil || notes != "" || !strings.HasSuffix(err.Error(), "connection refused: is podconfigd running there, with this address in --listen?") {
		t.Errorf("%q, %v", notes, err)
	}
	c, opts.fallback = local, fallback
	opts.stateDir = filepath.Join(dir, "elsewhere")
	if _, err := read(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "elsewhere: no such file or directory: is this the --state-dir of podconfigd?") {
		t.Error(err)
	}
	opts.Since, opts.Until, opts.pod.Pod, opts.Source = "x", "x", "/y", "z"
	opts.follow, opts.Newest = true, true
	_, err := read()
	for _, flag := range []string{"--since: ", "--until: ", "POD: ", "--source: ", "--follow can't be used with"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is not in %v", flag, err)
		}
	}
}
