package view

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// watcher is a client of nodes or namespaces: it lists, watches, and resumes after the last event, also after a restart.
type watcher struct {
	kind journal.Kind
	has  map[string]string
	// since is the revision to resume from; nil to list.
	since *int64
	// cut is true if it loses its connection anywhere.
	cut bool
	// resumed counts the times that it could resume.
	resumed int
}

// read takes the events that are there. If it can't resume, it lists.
func (w *watcher) read(t *testing.T, j *journal.Journal, r *rand.Rand) {
	t.Helper()
	cursor := Objects(j, ObjectsOptions{Kind: w.kind, Since: w.since})
	defer cursor.Close()
	var frames []*Frame
	for {
		changed, err := cursor.poll()
		if _, compacted := errors.AsType[*journal.CompactedError](err); compacted && w.since != nil {
			w.since = nil
			w.read(t, j, r)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, cursor.out...)
		if len(cursor.out) == 0 && changed != nil {
			break
		}
	}
	if w.since == nil {
		w.has = make(map[string]string)
	} else {
		w.resumed++
	}
	events := eventsOf(frames)
	if w.since != nil && w.cut && len(events) > 0 {
		events = events[:1+r.IntN(len(events))]
	}
	for _, e := range events {
		w.since = new(e.Revision)
		if e.Object == nil {
			continue
		}
		if name := e.Object.Object.GetName(); e.Op == config.REMOVE {
			delete(w.has, name)
		} else {
			w.has[name] = e.Object.Object.GetLabels()["v"]
		}
	}
}

// A client of nodes or namespaces that resumes with any revision that it got, by this process or an earlier one, either
// lists again or misses nothing.
func TestObjectsAreResumedAcrossRestarts(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		dir, node := t.TempDir(), 0
		watchers := []*watcher{
			{kind: journal.Namespaces}, {kind: journal.Namespaces, cut: true}, {kind: journal.Nodes}, {kind: journal.Nodes, cut: true},
		}
		for start := range 4 {
			log, recovered, err := store.Open(store.Options{Dir: dir, Node: "node", BootID: "boot-1"})
			if err != nil {
				t.Fatal(err)
			}
			nodeNow := func() *v1.Node {
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"v": fmt.Sprint(node)}}}
			}
			node += r.IntN(2) // it may change while the daemon is down
			j := &testJournal{Journal: journal.New(journal.Options{
				Sources: []string{"file"}, Store: log, Recovered: &recovered.Recovered, Node: nodeNow(),
			})}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 2)
			go func() { done <- log.Run(ctx) }()
			go func() { done <- j.Run(ctx) }()
			for step := range 12 {
				for _, w := range watchers {
					if r.IntN(2) == 0 || step == 0 && start > 0 && w.cut { // some ask before anything has changed
						w.read(t, j.Journal, r)
					}
				}
				switch r.IntN(3) {
				case 0:
					node++
					j.PutNode(nodeNow())
				default:
					j.randomChange(r)
				}
				settleStore(t, j)
			}
			for _, w := range watchers {
				cut := w.cut
				w.cut = false
				w.read(t, j.Journal, r)
				w.cut = cut
				all := watcher{kind: w.kind}
				all.read(t, j.Journal, r)
				if fmt.Sprint(w.has) != fmt.Sprint(all.has) {
					t.Fatalf("seed %d, start %d: the client has %v, want %v", seed, start, w.has, all.has)
				}
			}
			cancel()
			<-done
			<-done
		}
		for i, w := range watchers {
			if w.resumed == 0 {
				t.Errorf("seed %d: watcher %d never resumed", seed, i)
			}
		}
	}
}

// settleStore waits until what was appended is shown.
func settleStore(t *testing.T, j *testJournal) {
	t.Helper()
	for before := j.Advance(); ; {
		r, err := j.After(before, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Sets) > 0 || j.Revision() > before {
			return
		}
		<-r.Changed
	}
}
