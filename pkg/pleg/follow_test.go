package pleg

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// follower has the containers of a generator that it follows, by ID.
type follower struct {
	mu  sync.Mutex
	has map[string]Found
}

func follow(g *Generator) *follower {
	f := &follower{has: make(map[string]Found)}
	f.mu.Lock() // changes wait for the present ones
	defer f.mu.Unlock()
	present, _ := g.Follow(f.changed)
	for _, found := range present {
		f.has[found.Container.ID] = found
	}
	return f
}

func (f *follower) changed(found Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has[found.Container.ID] = found; !found.Ended.IsZero() {
		delete(f.has, found.Container.ID)
	}
}

// compare checks that the follower has what the generator has.
func (f *follower) compare(t *testing.T, g *Generator) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range g.records.owner {
		if want, _ := g.FindContainer(id); !reflect.DeepEqual(f.has[id], want) {
			t.Errorf("the follower has %+v, want %+v", f.has[id], want)
		}
	}
	if len(f.has) != len(g.records.owner) {
		t.Errorf("the follower has %v, the generator %v", f.has, g.records.owner)
	}
}

// The present containers come once, ordered by pod and creation. After stop, nothing more comes.
func TestFollow(t *testing.T) {
	g, now := New(Options{}), time.Unix(1e9, 0)
	tell := func(uid types.UID, containers ...string) {
		pod := &Pod{UID: uid}
		for i, id := range containers {
			pod.Containers = append(pod.Containers, Container{ID: id, State: StateRunning, CreatedAt: time.Unix(int64(10-i), 0)})
		}
		now = now.Add(time.Second)
		g.records.apply(uid, pod, g.records.compare(uid, pod, now), now)
	}
	tell("b", "b2", "b1")
	tell("c", "moved")
	tell("a", "a2", "a1", "moved")
	var ids []string
	present, stop := g.Follow(func(f Found) { ids = append(ids, f.Container.ID) })
	for i := range present {
		ids = append(ids, present[i].Container.ID)
	}
	tell("a", "a2", "new")
	stop()
	tell("a")
	if want := []string{"moved", "a1", "a2", "b1", "b2", "moved", "a1", "new"}; !reflect.DeepEqual(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
}
