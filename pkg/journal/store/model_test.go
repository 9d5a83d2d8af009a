package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// kept is a pod, and the revision of its name; 0 if that is the revision of the pod.
type kept struct {
	*journal.Pod
	byName int64
}

// tableOfPods returns a table of pods.
func tableOfPods(revision int64, pods map[sourceUID]kept, sources map[string]journal.Source) *journal.Table {
	return journal.NewTable(revision, func(yield func(*journal.Pod, int64) bool) {
		for _, p := range pods {
			yield(p.Pod, p.byName)
		}
	}, sources)
}

// model is a journal in short: it gives sets their revisions, and knows the state after them.
type model struct {
	random   *rand.Rand
	instance string
	revision int64
	// reserved is the revision that the next set must be above.
	reserved int64
	pods     map[sourceUID]kept
	now      time.Time
	// sets are all that were made.
	sets []*journal.Set
	// padding is how large pods are.
	padding int
}

func newModel(seed uint64, r *Recovered) *model {
	m := &model{random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0).UTC()}
	m.begin(r)
	return m
}

// begin takes what was recovered, as a journal does.
func (m *model) begin(r *Recovered) {
	m.instance, m.revision, m.reserved, m.pods = r.Instance, r.Revision, r.Reserved, final(r)
}

// applyTo applies a set to the pods, as a journal does. A stored REMOVE has only the names of its pods. They are
// replaced by the versions that it removes.
func applyTo(pods map[sourceUID]kept, set *journal.Set) {
	for _, u := range set.Updates {
		for k, p := range u.Pods {
			key := sourceUID{u.Source, p.Object.UID}
			switch before, ok := pods[key]; {
			case u.Op != config.REMOVE:
				pods[key] = kept{Pod: p}
			case ok:
				u.Pods[k] = before.Pod
				delete(pods, key)
			}
		}
	}
	renumber(pods, set.Names)
}

// renumber gives pods other revisions under their names.
func renumber(pods map[sourceUID]kept, names []journal.Change) {
	for _, c := range names {
		key := sourceUID{c.After.Source, c.After.Object.UID}
		if p, ok := pods[key]; ok {
			p.byName = c.Revision
			pods[key] = p
		}
	}
}

func (m *model) pod(source string, uid int) *journal.Pod {
	name := fmt.Sprintf("pod-%d", uid)
	object := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("uid-%d", uid)),
			Annotations: map[string]string{"n": fmt.Sprint(m.random.IntN(1 << 30))},
		},
		Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: string(make([]byte, m.padding))}}},
	}
	if source == config.FileSource {
		return journal.NewStored(source, object, nil, m.revision, &config.File{Path: "/etc/kubernetes/manifests/" + name + ".yaml", UID: 1000, Mode: 0o640, Before: "a.yaml/b.yaml"})
	}
	return journal.NewStored(source, object, nil, m.revision, nil)
}

// set makes the next set.
func (m *model) set() *journal.Set {
	m.now = m.now.Add(time.Millisecond).Round(0).UTC() // as it is read
	m.revision = max(m.revision, m.reserved)
	set := &journal.Set{First: m.revision + 1, Time: m.now}
	source := []string{config.FileSource, config.ApiserverSource}[m.random.IntN(2)]
	for range m.random.IntN(3) {
		u := &journal.Update{First: m.revision + 1, Op: config.UPDATE, Source: source}
		if m.random.IntN(3) == 0 {
			u.Op = config.REMOVE
			keys := slices.SortedFunc(maps.Keys(m.pods), cmpKeys)
			for _, key := range keys {
				if key.source == source && m.random.IntN(4) == 0 {
					m.revision++
					u.Pods = append(u.Pods, m.pods[key].Pod)
				}
			}
		} else {
			for range m.random.IntN(4) {
				m.revision++
				u.Pods = append(u.Pods, m.pod(source, m.random.IntN(12)))
			}
		}
		if len(u.Pods) == 0 {
			m.revision++
		}
		u.Revision = m.revision
		set.Updates = append(set.Updates, u)
		applyTo(m.pods, &journal.Set{Updates: []*journal.Update{u}})
	}
	if len(set.Updates) == 0 {
		m.revision++
	}
	for _, key := range slices.SortedFunc(maps.Keys(m.pods), cmpKeys) {
		if p := m.pods[key]; m.random.IntN(16) == 0 { // whether it is in an update or not
			m.revision++
			set.Names = append(set.Names, journal.Change{Revision: m.revision, After: p.At(m.revision)})
		}
	}
	renumber(m.pods, set.Names)
	if m.random.IntN(4) == 0 {
		set.Sources = []journal.Source{{Name: source, Seen: true, Time: m.now, Attributes: map[string]string{"ETag": fmt.Sprint(m.revision)}}}
	}
	set.Revision = m.revision
	m.sets = append(m.sets, set)
	return set
}

func cmpKeys(a, b sourceUID) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.uid, b.uid))
}

// options are those of most tests.
func options(fs FS) Options {
	return Options{Dir: "/state", Node: "node", FS: fs, BootID: "boot-1", SegmentBytes: 4 << 10}
}

// process is a log that runs.
type process struct {
	log  *Log
	pods map[sourceUID]kept
	stop context.CancelFunc
	done chan error
}

func start(tb testing.TB, opts Options) (*process, *Recovered) {
	tb.Helper()
	l, recovered, err := Open(opts)
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{log: l, pods: final(recovered), done: make(chan error, 1)}
	l.Begin(tableOfPods(recovered.Revision, p.pods, nil))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	p.stop = cancel
	go func() { p.done <- l.Run(ctx) }()
	return p, recovered
}

// append appends a set and waits until it is shown.
func (p *process) append(set *journal.Set) journal.Commit {
	shown := make(chan journal.Commit, 1)
	p.add(set, func(c journal.Commit) { shown <- c })
	return <-shown
}

// add appends a set, with the table after it.
func (p *process) add(set *journal.Set, show func(journal.Commit)) {
	applyTo(p.pods, set)
	set.After = tableOfPods(set.Revision, p.pods, nil)
	p.log.Append(set, show)
}

// end stops the log cleanly.
func (p *process) end() {
	p.stop()
	<-p.done
}

// final returns the state that a result describes.
func final(r *Recovered) map[sourceUID]kept {
	pods := make(map[sourceUID]kept)
	if r.Base == nil { // of a test
		return pods
	}
	for p, byName := range r.Base.Pods() {
		pods[keyOf(p)] = kept{p, byName}
	}
	for _, set := range r.Sets {
		applyTo(pods, set)
	}
	return pods
}

// storedPod and storedSet have what is stored of a pod and a set.
type (
	storedPod struct {
		Source   string
		Revision int64
		Merged   *v1.Pod
		Status   *v1.PodStatus
		File     *config.File
	}
	storedSet struct {
		First, Revision int64
		Time            time.Time
		Updates         []*journal.Update
		Names           map[sourceUID]int64
		Sources         []journal.Source
	}
)

var asStored = gocmp.Options{
	gocmp.Transformer("pod", func(p *journal.Pod) *storedPod {
		if p == nil {
			return nil
		}
		return &storedPod{p.Source, p.Revision, p.Merged, p.Status, p.File}
	}),
	gocmp.Transformer("set", func(s *journal.Set) *storedSet {
		names := make(map[sourceUID]int64)
		for _, c := range s.Names {
			names[keyOf(c.After)] = c.Revision
		}
		return &storedSet{s.First, s.Revision, s.Time, s.Updates, names, s.Sources}
	}),
	gocmp.AllowUnexported(kept{}, sourceUID{}),
}

// equal compares got and want. cmp.Diff is slow, so it is called only if they may differ.
func equal(tb testing.TB, what string, got, want any) {
	tb.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	if diff := gocmp.Diff(want, got, asStored); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
