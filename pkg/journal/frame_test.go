package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

func line(t *testing.T, f *Frame) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLinesAreWhatTheDesignSays(t *testing.T) {
	j := newJournal(Options{})
	c := j.Watch(WatchOptions{})
	var lines []string
	for _, f := range drain(c) {
		lines = append(lines, line(t, f))
	}
	appendSet(j, update(config.ADD))
	for _, f := range drain(c) {
		stamp := ""
		if !f.Time.IsZero() {
			data, _ := json.Marshal(f.Time)
			stamp = fmt.Sprintf(`"time":%s,`, data)
		}
		lines = append(lines, strings.Replace(line(t, f), stamp, "", 1))
	}
	want := []string{
		`{"instance":"I","revision":0,"op":"BOOKMARK","initialSyncComplete":true,"ready":false,"sources":{"file":{"seen":false}}}` + "\n",
		`{"instance":"I","revision":1,"op":"ADD","source":"file","pods":[]}` + "\n",
		`{"instance":"I","revision":1,"op":"BOOKMARK","ready":true,"sources":{"file":{"seen":true}}}` + "\n",
	}
	for i := range lines {
		lines[i] = strings.Replace(lines[i], j.instance, "I", 1)
		for n := range int64(2) {
			lines[i] = strings.Replace(lines[i], fmt.Sprint(j.first+n), fmt.Sprint(n), 1)
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALineIsTheWholeUpdate(t *testing.T) {
	j := newJournal(Options{})
	appendSet(j, update(config.ADD, "a=1", "b=2"))
	e := j.ring.at(0)
	var got v1alpha1.Update
	if err := json.Unmarshal([]byte(line(t, e.frames()[0])), &got); err != nil {
		t.Fatal(err)
	}
	if got.Time == nil || !got.Time.Equal(e.time) {
		t.Errorf("time %v, want %v", got.Time, e.time)
	}
	got.Time = nil
	want := v1alpha1.Update{Instance: j.instance, Revision: j.head, Op: "ADD", Source: "file", Pods: []*v1.Pod{pod("a=1"), pod("b=2")}}
	for _, p := range want.Pods {
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALargeUpdateIsSplit(t *testing.T) {
	j := newJournal(Options{})
	u := update(config.ADD)
	for i := range 10 {
		p := pod(fmt.Sprintf("p%d", i))
		p.Annotations["large"] = strings.Repeat("x", 300<<10)
		u.Pods = append(u.Pods, p)
	}
	c := j.Watch(WatchOptions{})
	drain(c)
	appendSet(j, u)
	want := "1 ADD p0 p1 p2 continues\n1 ADD p3 p4 p5 continues\n1 ADD p6 p7 p8 continues\n1 ADD p9\n1 BOOKMARK ready"
	if got := show(j, drain(c)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// However many read an update, and in whatever mode, its pods are encoded once.
func TestEachPodIsEncodedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	j := newJournal(Options{Registerer: registry})
	appendSet(j, update(config.ADD, "a", "b"))
	var readers sync.WaitGroup
	for i := range 100 {
		mode := []Mode{Incremental, SnapshotAndUpdates, Snapshot}[i%3]
		c := j.Watch(WatchOptions{Mode: mode})
		readers.Go(func() {
			var b bytes.Buffer
			for pods := 0; pods < 3; {
				for _, f := range next(t, c) {
					if err := f.WriteJSON(&b); err != nil {
						t.Error(err)
					}
					pods += len(f.Pods)
				}
			}
		})
	}
	appendSet(j, update(config.ADD, "c"))
	readers.Wait()
	if got := testutil.ToFloat64(j.metrics.encodes.WithLabelValues("json")); got != 3 {
		t.Errorf("3 pods were encoded %v times for 100 readers", got)
	}
}

func TestWriteList(t *testing.T) {
	for _, pods := range [][]string{{}, {"a"}, {"a", "b"}} {
		j := newJournal(Options{})
		appendSet(j, update(config.ADD, pods...))
		state := j.State()
		present, revision := state.Pods, state.Revision
		var b bytes.Buffer
		if err := WriteList(&b, revision, present); err != nil {
			t.Fatal(err)
		}
		var list v1.PodList
		if err := json.Unmarshal(b.Bytes(), &list); err != nil {
			t.Fatalf("%v in %s", err, &b)
		}
		if len(list.Items) != len(pods) || list.Kind != "PodList" || list.ResourceVersion != fmt.Sprint(revision) || list.Items == nil {
			t.Errorf("%d pods gave %s", len(pods), &b)
		}
	}
}

func TestRing(t *testing.T) {
	var r ring[int]
	next := 0
	for i := range 1000 {
		r.push(i)
		if i%3 == 2 {
			if got := r.pop(); got != next {
				t.Fatalf("popped %d, want %d", got, next)
			}
			next++
		}
		for k := range r.len() {
			if r.at(k) != next+k {
				t.Fatalf("at(%d) is %d, want %d", k, r.at(k), next+k)
			}
		}
	}
}
