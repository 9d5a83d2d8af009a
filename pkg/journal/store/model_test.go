package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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
)

// model is a journal in short: it gives sets their revisions, and knows what they add up to.
type model struct {
	random   *rand.Rand
	instance string
	revision int64
	// reserved is the revision that the next set must be above.
	reserved int64
	pods     map[podKey]Pod
	now      time.Time
	// sets are all that were made.
	sets []*Set
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
	m.instance, m.revision, m.reserved, m.pods = r.Instance, r.Revision, r.Reserved, make(map[podKey]Pod)
	for _, p := range r.Pods {
		m.pods[podKey{p.Source, p.Object.UID}] = p
	}
	for _, set := range r.Sets {
		applyTo(m.pods, set)
	}
}

// applyTo is written again here, so that a fault of the package's own does not hide itself.
func applyTo(pods map[podKey]Pod, set *Set) {
	for _, u := range set.Updates {
		for _, p := range u.Pods {
			if u.Op == config.REMOVE {
				delete(pods, podKey{u.Source, p.Object.UID})
			} else {
				pods[podKey{u.Source, p.Object.UID}] = p
			}
		}
	}
}

func (m *model) pod(source string, uid int) Pod {
	name := fmt.Sprintf("pod-%d", uid)
	object := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("uid-%d", uid)),
			Annotations: map[string]string{"n": fmt.Sprint(m.random.IntN(1 << 30))},
		},
		Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: string(make([]byte, m.padding))}}},
	}
	p := Pod{Source: source, Revision: m.revision, Object: object}
	if source == config.FileSource {
		p.File = &config.File{Path: "/etc/kubernetes/manifests/" + name + ".yaml", UID: 1000, Mode: 0o640}
	}
	if m.random.IntN(8) == 0 {
		p.ByName = m.revision + 1
	}
	return p
}

// set makes the next set.
func (m *model) set() *Set {
	m.now = m.now.Add(time.Millisecond)
	m.revision = max(m.revision, m.reserved)
	set := &Set{First: m.revision + 1, Time: m.now}
	source := []string{config.FileSource, config.ApiserverSource}[m.random.IntN(2)]
	for range m.random.IntN(3) {
		u := Update{Op: config.UPDATE, Source: source}
		if m.random.IntN(3) == 0 {
			u.Op = config.REMOVE
			keys := slices.SortedFunc(maps.Keys(m.pods), cmpKeys)
			for _, key := range keys {
				if key.source == source && m.random.IntN(4) == 0 {
					m.revision++
					u.Pods = append(u.Pods, m.pods[key])
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
		applyTo(m.pods, &Set{Updates: []Update{u}})
	}
	if len(set.Updates) == 0 {
		m.revision++
	}
	if m.random.IntN(4) == 0 {
		set.Sources = []Source{{Name: source, Seen: true, Time: m.now, Attributes: map[string]string{"ETag": fmt.Sprint(m.revision)}}}
	}
	set.Revision = m.revision
	m.sets = append(m.sets, set)
	return set
}

func cmpKeys(a, b podKey) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.uid, b.uid))
}

// options are those of most tests.
func options(fs FS) Options {
	return Options{Dir: "/state", Node: "node", FS: fs, BootID: "boot-1", SegmentBytes: 4 << 10}
}

// process is a log that runs.
type process struct {
	log  *Log
	stop context.CancelFunc
	done chan error
}

func start(tb testing.TB, opts Options) (*process, *Recovered) {
	tb.Helper()
	l, recovered, err := Open(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return run(l), recovered
}

func run(l *Log) *process {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	p := &process{log: l, stop: cancel, done: make(chan error, 1)}
	go func() { p.done <- l.Run(ctx) }()
	return p
}

// append appends a set and waits until it is shown.
func (p *process) append(set *Set) Commit {
	shown := make(chan Commit, 1)
	p.log.Append(set, func(c Commit) { shown <- c })
	return <-shown
}

// end stops the log cleanly.
func (p *process) end() {
	p.stop()
	<-p.done
}

// final returns the state that a result describes.
func final(r *Recovered) map[podKey]Pod {
	pods := make(map[podKey]Pod)
	for _, p := range r.Pods {
		pods[podKey{p.Source, p.Object.UID}] = p
	}
	for _, set := range r.Sets {
		applyTo(pods, set)
	}
	return pods
}

func equal(tb testing.TB, what string, got, want any) {
	tb.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
