package store

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

var update = flag.Bool("update", false, "write the directory of the present format, and the expectations of all")

// presentFormat is the directory of the present format. Each of the others was the present
// one once. A later directory of the same version has more fields.
const presentFormat = "testdata/format-1-passed"

// goldenFiles returns segments with everything that the present format has.
func goldenFiles(t *testing.T) map[string][]byte {
	t.Helper()
	now := time.Unix(1_700_000_000, 123).UTC()
	pod := func(name, image string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: "uid-of-it", Labels: map[string]string{"app": name}},
			Spec:       v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: image}}},
			Status:     v1.PodStatus{Phase: v1.PodRunning},
		}
	}
	file := &config.File{Path: "/etc/kubernetes/manifests/etcd.yaml", UID: 7, GID: 8, Mode: 0o640}
	sets := []*Set{
		{First: 1001, Revision: 1002, Time: now, Updates: []Update{{Op: config.ADD, Source: "file", Revision: 1002,
			Pods: []Pod{{Source: "file", Revision: 1001, ByName: 1002, Object: pod("etcd", "etcd:1"), File: file}}}}},
		{First: 1003, Revision: 1003, Time: now.Add(time.Second), Updates: []Update{{Op: config.ADD, Source: "api", Revision: 1003}},
			Sources: []Source{{Name: "api", Seen: true, Time: now.Add(time.Second), Attributes: map[string]string{"ETag": `"1"`, "Last-Modified": "x"}}}},
		{First: 1004, Revision: 1005, Time: now.Add(2 * time.Second), Updates: []Update{
			{Op: config.REMOVE, Source: "file", Revision: 1004, Pods: []Pod{{Source: "file", Object: pod("etcd", "")}}},
			{Op: config.RECONCILE, Source: "api", Revision: 1005, Pods: []Pod{{Source: "api", Revision: 1005, Object: pod("web", "web:1")}}},
		}},
		{First: 1006, Revision: 1006, Time: now.Add(3 * time.Second)},
		{First: 1007, Revision: 1007, Time: now.Add(4 * time.Second), Updates: []Update{{
			Op: config.RECONCILE, Source: "api", Revision: 1007, StatusOnly: true,
			Pods: []Pod{{Source: "api", Revision: 1007, Object: pod("web", "web:1"), Status: &v1.PodStatus{Phase: v1.PodFailed, PodIP: "10.0.0.7"}}},
		}}},
	}
	first := withState(encodeHeader(&header{Instance: "instance-1", Node: "node", BootID: "boot-1", Created: now, Base: 1000, Ceiling: 5000, Passed: beginning}), nil)
	at := newState()
	for _, set := range sets[:2] {
		first = append(first, encoded(t, set)...)
		at.apply(set, false)
	}
	first = appendCeiling(first, 6000)
	second := encodeHeader(&header{Instance: "instance-1", Node: "node", BootID: "boot-1", Created: now.Add(time.Second), Latest: at.latest, Passed: beginning + time.Second,
		Base: 1003, Ceiling: 6000, Predecessor: 1, PredecessorSize: int64(len(first)), Rolled: true})
	begin := len(second)
	second = beginFrame(second, kindPods)
	for _, p := range at.sorted() {
		var err error
		if second, err = appendPod(second, &p, false, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := endFrame(second, begin); err != nil {
		t.Fatal(err)
	}
	second = slices.Concat(withState(second, at.sources), takeover(), encoded(t, sets[2]), encoded(t, sets[3]), encodedAfter(t, sets[4], beginning+2*time.Minute))
	return map[string][]byte{segmentName(1): append(first, encoded(t, sets[2])...), segmentName(2): appendStop(second, now.Add(time.Minute), beginning+time.Minute)}
}

func encoded(t *testing.T, set *Set) []byte {
	t.Helper()
	return encodedAfter(t, set, 0)
}

func encodedAfter(t *testing.T, set *Set, passed time.Duration) []byte {
	t.Helper()
	frames, err := encodeSet(set, passed)
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// Each format is read, and the present one is written as it is described here. More fields
// need a new directory. Any other change of the format needs a new version, too: go test
// ./pkg/journal/store -run Format -update.
func TestFormats(t *testing.T) {
	if *update {
		if err := os.MkdirAll(presentFormat, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range goldenFiles(t) {
		path := filepath.Join(presentFormat, name)
		if *update {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(golden, data) {
			t.Errorf("%s: %v; what is written now is something else", path, err)
		}
	}
	dirs, err := filepath.Glob("testdata/format-*")
	if err != nil || !slices.Contains(dirs, presentFormat) || len(dirs) < formatVersion {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		got := readGolden(t, dir)
		want := filepath.Join(dir, "want.json")
		if *update {
			if err := os.WriteFile(want, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(want)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, dir, string(got), string(golden))
	}
}

// readGolden returns as JSON what a start and the history find in a directory.
func readGolden(t *testing.T, dir string) []byte {
	t.Helper()
	files := newMemFS()
	files.dirs["/state"] = true
	paths, err := filepath.Glob(filepath.Join(dir, segmentPrefix+"*"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files.files["/state/"+filepath.Base(path)] = &data
	}
	opts := options(files)
	opts.BootID = "boot-2" // the golden process stopped cleanly
	opts.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	l, recovered, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	found := struct {
		Recovered *Recovered
		Ceiling   int64
		History   []Record
	}{recovered, l.next.header.Ceiling, read(t, files, HistoryOptions{})}
	data, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}
