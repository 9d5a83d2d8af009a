package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
}

func add(names ...string) config.PodUpdate {
	u := config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{}}
	for _, name := range names {
		u.Pods = append(u.Pods, pod(name))
	}
	return u
}

func newJournal() *journal.Journal { return journal.New(journal.Options{Sources: []string{"file"}}) }

func line(t *testing.T, f *view.Frame) string {
	t.Helper()
	b, err := AppendLine(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// next returns the next frames, of one or more calls of Next.
func next(t *testing.T, c *view.Cursor, calls int) (frames []*view.Frame) {
	t.Helper()
	for range calls {
		got, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, got...)
	}
	return frames
}

func TestLinesAreWhatTheDesignSays(t *testing.T) {
	j := newJournal()
	c := view.Stream(j, view.StreamOptions{})
	defer c.Close()
	first := j.Revision()
	frames := next(t, c, 1)
	j.Append(add())
	frames = append(frames, next(t, c, 1)...)
	var lines []string
	for _, f := range frames {
		l := strings.Replace(line(t, f), j.Instance(), "I", 1)
		if !f.Time.IsZero() {
			data, err := json.Marshal(f.Time)
			if err != nil {
				t.Fatal(err)
			}
			l = strings.Replace(l, fmt.Sprintf(`"time":%s,`, data), "", 1)
		}
		for n := range int64(3) {
			l = strings.Replace(l, fmt.Sprint(first+n), fmt.Sprint(n), 1)
		}
		lines = append(lines, l)
	}
	want := []string{
		`{"instance":"I","revision":0,"op":"BOOKMARK","initialSyncComplete":true,"ready":false,"sources":{"file":{"seen":false}}}` + "\n",
		`{"instance":"I","revision":1,"op":"ADD","source":"file","pods":[]}` + "\n",
		`{"instance":"I","revision":2,"op":"BOOKMARK","ready":true,"sources":{"file":{"seen":true}}}` + "\n",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line that can't be resumed from has no revision, not revision 0.
func TestALineWithoutRevision(t *testing.T) {
	j := newJournal()
	j.Append(add("a"))
	c := view.Stream(j, view.StreamOptions{})
	defer c.Close()
	if got := line(t, next(t, c, 1)[0]); strings.Contains(got, "revision") {
		t.Errorf("a present pod has a revision: %s", got)
	}
}

func TestALineIsTheWholeUpdate(t *testing.T) {
	j := newJournal()
	c := view.Stream(j, view.StreamOptions{})
	defer c.Close()
	next(t, c, 1)
	j.Append(add("a", "b"))
	f := next(t, c, 1)[0]
	var got v1alpha1.Update
	if err := json.Unmarshal([]byte(line(t, f)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Time == nil || !got.Time.Equal(f.Time) {
		t.Errorf("time %v, want %v", got.Time, f.Time)
	}
	got.Time = nil
	want := v1alpha1.Update{Instance: j.Instance(), Revision: f.Revision, Op: v1alpha1.OpAdd, Source: "file", Pods: []*v1.Pod{pod("a"), pod("b")}}
	for _, p := range want.Pods {
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The pods of an update are encoded once, whatever the number and the modes of
// subscribers.
func TestEachPodIsEncodedOnce(t *testing.T) {
	j := newJournal()
	before := testutil.ToFloat64(encodes.WithLabelValues("json"))
	j.Append(add("a", "b"))
	var subscribers sync.WaitGroup
	for i := range 100 {
		mode := []view.Mode{view.IncrementalMode, view.SnapshotAndUpdatesMode, view.SnapshotMode}[i%3]
		c := view.Stream(j, view.StreamOptions{Mode: mode})
		subscribers.Go(func() {
			defer c.Close()
			var b []byte
			for pods := 0; pods < 3; {
				for _, f := range next(t, c, 1) {
					var err error
					if b, err = AppendLine(b[:0], f); err != nil {
						t.Error(err)
					}
					pods += len(f.Pods)
				}
			}
		})
	}
	j.Append(add("c"))
	subscribers.Wait()
	if got := testutil.ToFloat64(encodes.WithLabelValues("json")) - before; got != 3 {
		t.Errorf("3 pods were encoded %v times for 100 subscribers", got)
	}
}

func TestWriteList(t *testing.T) {
	for _, names := range [][]string{{}, {"a"}, {"a", "b"}} {
		j := newJournal()
		j.Append(add(names...))
		state := j.State()
		var b bytes.Buffer
		if err := WriteList(&b, state.Revision, state.Pods); err != nil {
			t.Fatal(err)
		}
		var list v1.PodList
		if err := json.Unmarshal(b.Bytes(), &list); err != nil {
			t.Fatalf("%v in %s", err, &b)
		}
		if len(list.Items) != len(names) || list.Kind != "PodList" || list.ResourceVersion != fmt.Sprint(state.Revision) || list.Items == nil {
			t.Errorf("%d pods gave %s", len(names), &b)
		}
	}
}
