package kubelet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// A kubelet is upgraded and rolled back at random, while podconfigd runs and restarts, sandboxes come and go, the
// clock jumps, and the Node says any version. The rules are always those of the kubelet that started the last
// sandbox.
func TestRandomUpgrades(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 27)) //nolint:gosec // it is for tests
		names := []string{"api", "web", "dns"}
		w := newWorld(t)
		w.run(36, "api")
		w.start(names...)
		current, last := manifest.Minor(36), manifest.Minor(36)
		var events []string
		for range 40 {
			event := ""
			switch r.IntN(8) {
			case 0:
				current = manifest.Oldest + manifest.Minor(r.IntN(len(manifest.Minors())))
				event = fmt.Sprintf("upgrade to %v", current)
			case 1, 2, 3:
				name := names[r.IntN(len(names))]
				if r.IntN(2) == 0 { // the one before has ended
					w.end(name)
				}
				w.run(current, name)
				last, event = current, fmt.Sprintf("a sandbox of %s", name)
			case 4:
				version := fmt.Sprintf("v1.%d.%d", 32+r.IntN(7), r.IntN(3))
				w.finder.SetNode(version)
				event = "the Node says " + version
			case 5:
				event = "podconfigd restarts"
				w.restart(names...)
			case 6:
				w.clock = w.clock.Add(time.Duration(r.IntN(7200)-3600) * time.Second)
				event = "the clock jumps"
			case 7:
				if n := len(w.sandboxes); n > 1 {
					i := r.IntN(n)
					event = fmt.Sprintf("sandbox %s ends", w.sandboxes[i].Containers[0].ID)
					w.sandboxes = slices.Delete(w.sandboxes, i, i+1)
				}
			}
			events = append(events, event)
			w.look(names...)
			w.finder.decide()
			w.read(names...)
			w.finder.remember(t.Context())
			if got := w.decoder.Minor(); got != last && w.finder.confirmed() {
				t.Fatalf("seed %d: the rules of %v, want %v, after\n%s", seed, got, last, strings.Join(events, "\n"))
			}
			if !w.finder.confirmed() {
				last = w.decoder.Minor() // nothing runs that shows it
			}
			if others := w.finder.Others(); len(others) > 0 {
				t.Fatalf("seed %d: other UIDs %v, after\n%s", seed, others, strings.Join(events, "\n"))
			}
		}
	}
}

// end ends the sandboxes of a pod.
func (w *world) end(name string) {
	w.sandboxes = slices.DeleteFunc(slices.Clone(w.sandboxes), func(p *pleg.Pod) bool { return p.Name == name+"-node1" })
}
