package journal

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// model is the state of a journal in maps, from the changes in its sets.
type model struct {
	pods  map[podKey]*Pod
	names map[types.NamespacedName]*Pod
	uids  map[types.UID]*Pod
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.pods), maps.Clone(m.names), maps.Clone(m.uids)}
}

func (m *model) apply(s *Set) {
	for _, u := range s.Updates {
		for _, p := range u.Pods {
			switch {
			case !u.Op.IsConfig():
			case u.Op == config.REMOVE:
				delete(m.pods, p.key())
			default:
				m.pods[p.key()] = p
			}
		}
	}
	m.applyNames(s, s.Revision)
	for _, c := range s.UIDs {
		if c.After == nil {
			delete(m.uids, c.Before.Object.UID)
		} else {
			m.uids[c.After.Object.UID] = c.After
		}
	}
}

// applyNames applies the changes of names up to a revision.
func (m *model) applyNames(s *Set, revision int64) {
	for _, c := range s.Names {
		switch {
		case c.Revision > revision:
		case c.After == nil:
			delete(m.names, c.Before.name())
		default:
			m.names[c.After.name()] = c.After
		}
	}
}

// check compares a table with the model.
func (m *model) check(t *testing.T, at *Table) {
	t.Helper()
	all := func(what string, got []*Pod, want []*Pod, compare func(a, b *Pod) int) {
		if len(got) != len(want) || !slices.IsSortedFunc(got, compare) {
			t.Fatalf("%s at %d: %d pods, want %d, or not in order", what, at.revision, len(got), len(want))
		}
		for _, p := range want {
			if !slices.Contains(got, p) {
				t.Fatalf("%s at %d: %s of %s is missing", what, at.revision, p.Object.Name, p.Source)
			}
		}
	}
	name := func(p *Pod) string { return p.Object.Namespace + "/" + p.Object.Name }
	byName := func(a, b *Pod) int { return cmp.Compare(name(a), name(b)) }
	all("by source", at.bySource(), slices.Collect(maps.Values(m.pods)), func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), byName(a, b))
	})
	all("by name", at.byName(), slices.Collect(maps.Values(m.names)), byName)
	for _, namespace := range []string{"a", "default", "z"} {
		want := slices.DeleteFunc(at.byName(), func(p *Pod) bool { return p.Object.Namespace != namespace })
		if got := slices.Collect(at.inNamespace(namespace)); !slices.Equal(got, want) {
			t.Fatalf("%d pods in namespace %s at %d, want %d", len(got), namespace, at.revision, len(want))
		}
	}
	all("by UID", at.byUID(), slices.Collect(maps.Values(m.uids)), func(a, b *Pod) int { return cmp.Compare(a.Object.UID, b.Object.UID) })
	for _, p := range m.pods {
		first := func(same func(other *Pod) bool) *Pod {
			return slices.MinFunc(slices.DeleteFunc(slices.Collect(maps.Values(m.pods)), func(p *Pod) bool { return !same(p) }), preferred)
		}
		if got, want := at.withUID(p.Object.UID), first(func(other *Pod) bool { return other.Object.UID == p.Object.UID }); got != want || got != m.uids[p.Object.UID] {
			t.Fatalf("UID %s at %d is of %s, want %s", p.Object.UID, at.revision, got.Source, want.Source)
		}
		if got, want := at.withName(p.name()), first(func(other *Pod) bool { return other.name() == p.name() }); got.key() != want.key() || got != m.names[p.name()] {
			t.Fatalf("name %v at %d is of %v, want %v", p.name(), at.revision, got.key(), want.key())
		}
	}
	if p := at.withUID("none"); p != nil || at.withName(types.NamespacedName{Namespace: "default", Name: "none"}) != nil {
		t.Fatalf("there is a pod that was never added: %v", p)
	}
}

// randomSet returns random updates of one source: it removes some of its pods, changes some, also in their names and in
// whether they are mirror pods, and adds others. Sources share names and UIDs.
func randomSet(r *rand.Rand, m *model) (updates []config.PodUpdate) {
	source := []string{"api", "file", "http"}[r.IntN(3)]
	taken := make(map[string]bool)
	for range 1 + r.IntN(4) {
		uid := fmt.Sprint("u", r.IntN(8))
		if taken[uid] {
			continue
		}
		taken[uid] = true
		p := pod(fmt.Sprintf("n%d=%d", r.IntN(5), r.IntN(100)))
		if p.UID = types.UID(uid); r.IntN(4) == 0 {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "static"}
		}
		op := config.ADD
		if before := m.pods[podKey{source, p.UID}]; before != nil {
			op = config.UPDATE
			switch r.IntN(3) {
			case 0:
				op, p = config.REMOVE, before.Merged
			case 1:
				p.Name = before.Object.Name
			}
		}
		updates = append(updates, config.PodUpdate{Op: op, Source: source, Pods: []*v1.Pod{p}})
	}
	slices.SortStableFunc(updates, func(a, b config.PodUpdate) int { return int(b.Op - a.Op) })
	return updates
}

// Each table is what maps are, also after later sets, and the journal has it for each revision of the ring.
func TestTablesAreWhatMapsAre(t *testing.T) {
	for seed := range uint64(20 / testutil.Stride(4)) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := newJournal(Options{Sources: []string{"api", "file", "http"}})
		start := j.Revision()
		now := &model{make(map[podKey]*Pod), make(map[types.NamespacedName]*Pod), make(map[types.UID]*Pod)}
		models := map[int64]*model{start: now}
		read := start
		for range 200 {
			appendSet(j, randomSet(r, now)...)
			reading, err := j.After(read, nil, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range reading.Sets {
				for within := read + 1; within < set.Revision; within++ {
					models[within] = models[read].clone()
					models[within].applyNames(set, within)
				}
				now = now.clone()
				now.apply(set)
				models[set.Revision], read = now, set.Revision
				now.check(t, set.After)
			}
		}
		for i := range j.ring.len() {
			set := j.ring.at(i)
			models[set.First-1].check(t, set.before)
			models[set.Revision].check(t, set.After)
		}
		for revision := start; revision <= read; revision++ {
			named, _, err := j.Named(revision)
			if err != nil || len(named) != len(models[revision].names) {
				t.Fatalf("%d names at %d, want %d, %v", len(named), revision, len(models[revision].names), err)
			}
			for _, p := range named {
				if models[revision].names[p.name()] != p {
					t.Fatalf("at %d, %v is of %v", revision, p.name(), p.key())
				}
			}
		}
	}
}
