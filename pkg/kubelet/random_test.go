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
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomUpgrades(t, rand.New(rand.NewPCG(seed, 27))) })
	}
}

func randomUpgrades(t *testing.T, r *rand.Rand) {
	t.Helper()
	names := []string{"api", "web", "dns"}
	w := newWorld(t)
	w.run(36, "api")
	w.start(names...)
	w.current = 36
	last := w.current
	var events []string
	for range 40 {
		event, started := w.random(r, names)
		if started {
			last = w.current
		}
		events = append(events, event)
		w.look(names...)
		w.finder.decide()
		w.read(names...)
		w.finder.remember()
		if got := w.decoder.Minor(); got != last && w.finder.confirmed() {
			t.Fatalf("the rules of %v, want %v, after\n%s", got, last, strings.Join(events, "\n"))
		}
		if !w.finder.confirmed() {
			last = w.decoder.Minor() // nothing runs that shows it
		}
		if others := w.finder.Others(); len(others) > 0 {
			t.Fatalf("other UIDs %v, after\n%s", others, strings.Join(events, "\n"))
		}
	}
}

// random makes something happen. It returns what it was, and whether the kubelet started a sandbox.
func (w *world) random(r *rand.Rand, names []string) (event string, started bool) {
	switch r.IntN(8) {
	case 0:
		w.current = manifest.Oldest + manifest.Minor(r.IntN(int(manifest.Base-manifest.Oldest)+1))
		return fmt.Sprintf("upgrade to %v", w.current), false
	case 1, 2, 3:
		name := names[r.IntN(len(names))]
		if r.IntN(2) == 0 { // the one before has ended
			w.end(name)
		}
		w.run(w.current, name)
		return "a sandbox of " + name, true
	case 4:
		version := fmt.Sprintf("v1.%d.%d", 32+r.IntN(7), r.IntN(3))
		w.finder.SetNode(version)
		return "the Node says " + version, false
	case 5:
		w.restart(names...)
		return "podconfigd restarts", false
	case 6:
		w.clock = w.clock.Add(time.Duration(r.IntN(7200)-3600) * time.Second)
		return "the clock jumps", false
	}
	n := len(w.sandboxes)
	if n < 2 {
		return "nothing", false
	}
	i := r.IntN(n)
	event = fmt.Sprintf("sandbox %s ends", w.sandboxes[i].Containers[0].ID)
	w.sandboxes = slices.Delete(w.sandboxes, i, i+1)
	return event, false
}

// end ends the sandboxes of a pod.
func (w *world) end(name string) {
	w.sandboxes = slices.DeleteFunc(slices.Clone(w.sandboxes), func(p *pleg.Pod) bool { return p.Name == name+"-node1" })
}
