package view

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A watch of namespaces returns its events in batches, as the watches of pods do: at its start, in one set that changes many, and in many sets.
func TestObjectsComeInBatches(t *testing.T) {
	const count, large = 60, 20 << 10
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("ns%02d", i)
	}
	metas := func(v string) (all []*metav1.ObjectMeta) {
		for _, name := range names {
			all = append(all, &metav1.ObjectMeta{Name: name, Annotations: map[string]string{"v": strings.Repeat(v, large)}})
		}
		return all
	}
	// pods changes the pods of all namespaces in one set.
	pods := func(j *testJournal, op config.PodOperation) {
		u := config.PodUpdate{Op: op, Source: "file"}
		for _, name := range names {
			p := pod(name + "=red")
			p.Namespace = name
			u.Pods = append(u.Pods, p)
		}
		j.Append(u)
	}
	for name, scoped := range map[string]bool{"all": false, "a client with rules": true} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(journal.Options{MaxBytes: 1 << 30})
			j.PutNamespaces(metas("a"))
			pods(j, config.ADD)
			opts := ObjectsOptions{Kind: journal.Namespaces}
			if scoped {
				opts.scope = j.red(t)
			}
			c := j.objects(t, opts)
			for _, step := range []struct {
				name   string
				op     config.PodOperation
				change func()
			}{
				{"start", config.ADD, func() {}},
				{"one set that removes all", config.REMOVE, func() { pods(j, config.REMOVE) }},
				{"one set that adds all", config.ADD, func() { pods(j, config.ADD) }},
				{"many sets", config.UPDATE, func() { j.PutNamespaces(metas("b")) }},
			} {
				step.change()
				var got []string
				for len(got) < count {
					frames, err := c.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					size := 0
					for _, e := range eventsOf(frames) {
						if e.Op == config.BOOKMARK {
							continue
						}
						if e.Op != step.op {
							t.Errorf("%s: got %v", step.name, e.Op)
						}
						got = append(got, e.Object.Object.GetName())
						size += e.Object.Size()
					}
					if size > BatchSize+large {
						t.Errorf("%s: a batch has %d bytes", step.name, size)
					}
				}
				if slices.Sort(got); !slices.Equal(got, names) {
					t.Errorf("%s: got %v", step.name, got)
				}
			}
		})
	}
}

// A watch that has sent a change holds no version that has left the ring.
func TestAWatchOfObjectsHoldsNoOldVersion(t *testing.T) {
	node := func(v int) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"v": fmt.Sprint(v)}}}
	}
	j := newJournal(journal.Options{Node: node(0), MaxUpdates: 8})
	seen := NewGate(j.Journal, access.NewPolicy([]access.Rule{rule(t, access.Full, "image=red")}))
	var cursors []*Cursor
	for _, scope := range []*Scope{nil, scopeOf(t, seen)} {
		for _, kind := range []journal.Kind{journal.Nodes, journal.Namespaces} {
			cursors = append(cursors, j.objects(t, ObjectsOptions{Options: Options{scope: scope}, Kind: kind}))
		}
	}
	take := func() {
		for _, c := range cursors {
			available(t, c)
		}
	}
	take()
	j.put(config.ADD, "gone/x=red")
	j.PutNode(node(1))
	old := []weak.Pointer[journal.Object]{
		weak.Make(j.Object(journal.Namespaces, "gone")), weak.Make(j.Object(journal.Nodes, "node1")),
	}
	take()
	j.PutNode(node(2))
	j.put(config.REMOVE, "gone/x=red")
	take()              // the last event of a namespace has its old version
	for i := range 20 { // meanwhile, the client does not read
		j.PutNode(node(i + 3))
	}
	runtime.GC()
	for i, p := range old {
		if p.Value() != nil {
			t.Errorf("version %d is still held", i)
		}
	}
	runtime.KeepAlive(cursors)
	runtime.KeepAlive(j)
}
