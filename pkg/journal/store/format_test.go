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
	"github.com/podconfigd/podconfigd/pkg/journal"
)

var update = flag.Bool("update", false, "write the directory of the present format, and the expectations of all")

// presentFormat is the directory of the present format. Each of the others was the present
// one once. A later directory of the same version has more fields.
const presentFormat = "testdata/format-1-note"

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
	stored := func(source string, revision int64, object *v1.Pod, status *v1.PodStatus, file *config.File) []*journal.Pod {
		return []*journal.Pod{journal.NewStored(source, object, status, revision, file)}
	}
	etcd := stored("file", 1001, pod("etcd", "etcd:1"), nil, file)
	sets := []*journal.Set{
		{First: 1001, Revision: 1002, Time: now, Updates: []*journal.Update{{First: 1001, Op: config.ADD, Source: "file", Revision: 1002, Pods: etcd}},
			Names: []journal.Change{{Revision: 1002, After: etcd[0].At(1002)}}},
		{First: 1003, Revision: 1003, Time: now.Add(time.Second), Updates: []*journal.Update{{First: 1003, Op: config.ADD, Source: "api", Revision: 1003}},
			Sources: []journal.Source{{Name: "api", Seen: true, Time: now.Add(time.Second), Attributes: map[string]string{"ETag": `"1"`, "Last-Modified": "x"}}}},
		{First: 1004, Revision: 1005, Time: now.Add(2 * time.Second), Updates: []*journal.Update{
			{First: 1004, Op: config.REMOVE, Source: "file", Revision: 1004, Pods: stored("file", 0, pod("etcd", ""), nil, nil)},
			{First: 1005, Op: config.RECONCILE, Source: "api", Revision: 1005, Pods: stored("api", 1005, pod("web", "web:1"), nil, nil)},
		}},
		{First: 1006, Revision: 1006, Time: now.Add(3 * time.Second)},
		{First: 1007, Revision: 1007, Time: now.Add(4 * time.Second), Updates: []*journal.Update{{
			First: 1007, Op: config.RECONCILE, Source: "api", Revision: 1007, StatusOnly: true,
			Pods: stored("api", 1007, pod("web", "web:1"), &v1.PodStatus{Phase: v1.PodFailed, PodIP: "10.0.0.7"}, nil),
		}}},
	}
	first := withState(encodeHeader(&header{Instance: "instance-1", Node: "node", BootID: "boot-1", Created: now, Base: 1000, Ceiling: 5000, Passed: beginning, Note: "first"}), nil)
	for _, set := range sets[:2] {
		first = append(first, encoded(t, set)...)
	}
	first = appendCeiling(first, 6000)
	second := encodeHeader(&header{Instance: "instance-1", Node: "node", BootID: "boot-1", Created: now.Add(time.Second), Latest: sets[1].Time, Passed: beginning + time.Second,
		Base: 1003, Ceiling: 6000, Predecessor: 1, PredecessorSize: int64(len(first)), Rolled: true, Note: "second"})
	begin := len(second)
	second = beginFrame(second, kindPods)
	second, err := appendPod(second, etcd[0], 1002, false, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := endFrame(second, begin); err != nil {
		t.Fatal(err)
	}
	sources := map[string]journal.Source{"api": sets[1].Sources[0], "file": {Name: "file", Seen: true, Time: now}}
	second = slices.Concat(withState(second, sources), appendRecord(nil, kindTakeover, func(*codec) {}), encoded(t, sets[2]), encoded(t, sets[3]), encodeNote("third"), encodedAfter(t, sets[4], beginning+2*time.Minute))
	return map[string][]byte{segmentName(1): append(first, encoded(t, sets[2])...), segmentName(2): appendStop(second, now.Add(time.Minute), beginning+time.Minute)}
}

func encoded(t *testing.T, set *journal.Set) []byte {
	t.Helper()
	return encodedAfter(t, set, 0)
}

func encodedAfter(t *testing.T, set *journal.Set, passed time.Duration) []byte {
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
		Recovered goldenRecovered
		Ceiling   int64
		History   []goldenRecord
	}{goldenOf(recovered), l.ceiling, nil}
	for _, r := range read(t, files, HistoryOptions{}) {
		found.History = append(found.History, goldenRecord{
			r.Time, r.Instance, r.Revision, r.Op, r.Source, podOf(r.Pod), podOf(r.Before), r.Replaced, r.Gap,
		})
	}
	data, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// These are the parts of an expectation.
type (
	goldenRecovered struct {
		Instance                 string
		Resumed                  bool
		Reason                   string
		Revision, Reserved, Base int64
		Pods                     []goldenPod
		Sets                     []goldenSet
		Sources                  map[string]journal.Source
		Problems                 []Problem
		Note                     string `json:",omitempty"`
	}
	goldenSet struct {
		First, Revision int64
		Time            time.Time
		Updates         []goldenUpdate
		Named           []goldenPod
		Sources         []journal.Source
	}
	goldenUpdate struct {
		Revision   int64
		Op         config.PodOperation
		Source     string
		StatusOnly bool
		Pods       []goldenPod
	}
	goldenPod struct {
		Source           string
		Revision, ByName int64
		Object           *v1.Pod
		Status           *v1.PodStatus
		File             *config.File
	}
	goldenRecord struct {
		Time        time.Time
		Instance    string
		Revision    int64
		Op          config.PodOperation
		Source      string
		Pod, Before goldenPod
		Replaced    bool
		Gap         string
	}
)

func podOf(p *journal.Pod) goldenPod {
	if p == nil {
		return goldenPod{}
	}
	return goldenPod{p.Source, p.Revision, 0, p.Merged, p.Status, p.File}
}

func goldenOf(r *Recovered) goldenRecovered {
	out := goldenRecovered{r.Instance, r.Resumed, r.Reason, r.Revision, r.Reserved, r.Base.Revision(), nil, nil, r.Base.Sources(), r.Problems, r.Note}
	for p, byName := range r.Base.Pods() {
		pod := podOf(p)
		pod.ByName = byName
		out.Pods = append(out.Pods, pod)
	}
	for _, set := range r.Sets {
		golden := goldenSet{set.First, set.Revision, set.Time, nil, nil, set.Sources}
		byName := renumbered(set)
		for _, u := range set.Updates {
			update := goldenUpdate{u.Revision, u.Op, u.Source, u.StatusOnly, nil}
			for _, p := range u.Pods {
				pod := podOf(p)
				pod.ByName = byName[keyOf(p)]
				update.Pods = append(update.Pods, pod)
			}
			golden.Updates = append(golden.Updates, update)
		}
		out.Sets = append(out.Sets, golden)
	}
	return out
}
