package containers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// A subscriber that does not read holds neither the containers that are left to send nor those of an ended recording, while they change
// again and again.
func TestMemoryOfSubscribersThatDoNotRead(t *testing.T) {
	alone(t, func(w *world) {
		const subscribers, containers, most = 20, 1000, 1 << 20 // each took 3 MB, and the ring is not always full
		changes := 0
		change := func() {
			changes++
			for i := range containers {
				w.set(fmt.Sprint("p/", i, " ", []string{"exited", "created"}[changes%2]))
			}
		}
		fill := func() { // the ring
			for range 2*maxChanges/containers + 2 {
				change()
			}
		}
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		change()
		w.watch(nil, WatchOptions{}).read()
		fill()
		before := heap()
		var all []any
		for i := range subscribers {
			s := w.watch(nil, WatchOptions{})
			updates, err := s.Next(w.t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s, updates)
			if change(); i%5 == 0 {
				w.stream.Restart()
			}
		}
		fill()
		if each := (heap() - before) / subscribers; each > most {
			t.Errorf("each takes %d KiB, want at most %d", each>>10, most>>10)
		}
		runtime.KeepAlive(all)
		for _, s := range w.subscribers { // they start again
			if lines := s.read(); len(s.held) != containers {
				t.Errorf("%d containers after %.100q", len(s.held), lines)
			}
		}
	})
}

// Updates with long labels come one by one: a subscriber that does not read holds those that came together.
func TestLongLabelsComeOneByOne(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{Labels: true})
		s.read()
		for i := range 5 {
			name := fmt.Sprint("p", i)
			w.deliver(config.ADD, "api", pod(name, podtest.Label("long", strings.Repeat("x", batchBytes))))
			w.set(name + "/x created")
		}
		for _, c := range []*subscriber{s, w.watch(nil, WatchOptions{Labels: true})} {
			for range 5 {
				updates, err := c.Next(w.t.Context())
				if n := len(updates); err != nil || n == 0 || n > 2 || n == 2 && updates[1].Container != nil { // the last one with a bookmark
					t.Fatalf("%d updates, %v", n, err)
				}
			}
			if lines := c.read(); len(lines) > 0 {
				t.Errorf("more came: %.100q", lines)
			}
		}
	})
}
